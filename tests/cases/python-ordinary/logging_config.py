import logging.config

logging.config.dictConfig(
    {
        "version": 1,
        "formatters": {"plain": {"format": "%(levelname)s %(message)s"}},
        "handlers": {"out": {"class": "logging.StreamHandler", "formatter": "plain", "stream": "ext://sys.stdout"}},
        "root": {"handlers": ["out"], "level": "INFO"},
    }
)
logging.info("ready")
