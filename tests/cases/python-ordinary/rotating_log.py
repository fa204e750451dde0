import logging
import logging.handlers

handler = logging.handlers.MemoryHandler(10)
logger = logging.getLogger("demo")
logger.addHandler(handler)
logger.warning("hello %s", "world")
print(len(handler.buffer))
