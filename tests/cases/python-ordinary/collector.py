import gc
import weakref


class Thing:
    pass


thing = Thing()
ref = weakref.ref(thing)
del thing
gc.collect()
print(ref() is None, gc.isenabled(), gc.get_count())
