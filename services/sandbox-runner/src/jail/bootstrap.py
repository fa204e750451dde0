# Runs in every jail before any snippet is known: loads what most snippets want, says that it is ready,
# waits for one snippet and becomes it.
def _wait_then_run():
    import collections, datetime, functools, gc, itertools, json, linecache, math, os, random, re, signal, sys, traceback

    # Only the three standard descriptors are the snippet's, whatever else came along from outside.
    os.closerange(3, 1 << 30)
    # If memory runs out, the snippet must be the one to go, not the init that reports on it.
    try:
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write("500")
    except OSError:
        pass
    sys.stdout.reconfigure(line_buffering=True)
    # What is loaded now stays to the end; there is no use in looking through it again.
    gc.collect()
    gc.freeze()
    os.write(1, b"\x06")
    size = int.from_bytes(sys.stdin.buffer.read(4), "big")
    source = sys.stdin.buffer.read(size)
    if not size or len(source) != size:
        os._exit(70)

    # The text that was judged, whatever encoding it says that it is in.
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError:
        os._exit(70)
    name = "<sandbox>"
    lines = text.splitlines(True)
    linecache.cache[name] = (size, None, lines, name)
    sys.argv = [name]
    scope = sys.modules["__main__"].__dict__
    builtins = scope["__builtins__"]
    scope.clear()
    scope.update(__name__="__main__", __doc__=None, __package__=None, __loader__=None, __spec__=None, __builtins__=builtins)
    try:
        exec(compile(text, name, "exec", dont_inherit=True), scope)
    except SystemExit:
        raise
    except BaseException as error:
        # The reader sees the snippet's own frames, as if it had been a script.
        trace = error.__traceback__.tb_next
        hook = sys.excepthook
        try:
            if hook is sys.__excepthook__:
                traceback.print_exception(type(error), error, trace)
            else:
                hook(type(error), error, trace)
        except BaseException:
            os.write(2, type(error).__name__.encode("ascii", "replace") + b"\n")
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        sys.exit(1)


_wait_then_run()
