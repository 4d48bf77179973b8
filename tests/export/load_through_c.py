"""Run by test_serving: loads a SavedModel through TensorFlow's C API, as TF Serving's loader does.

    python load_through_c.py SAVED_MODEL [OP_LIBRARY.so …]

No Python TensorFlow, no Keras: only ops compiled into TensorFlow and those of the
libraries named. An op that is registered in neither fails here as it would there.
"""

import ctypes
import importlib.util
import sys
from pathlib import Path

home = Path(importlib.util.find_spec("tensorflow").origin).parent
LIBRARIES = [
    ctypes.CDLL(str(home / name), mode=ctypes.RTLD_GLOBAL)
    for name in ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")
]


def c_function(name, returns, *takes):
    """One function of the C API, with its types."""
    found = next(getattr(library, name) for library in LIBRARIES if hasattr(library, name))
    found.restype, found.argtypes = returns, takes
    return found


POINTER, TEXT = ctypes.c_void_p, ctypes.c_char_p
status = c_function("TF_NewStatus", POINTER)()
get_code = c_function("TF_GetCode", ctypes.c_int, POINTER)
get_message = c_function("TF_Message", TEXT, POINTER)
load_library = c_function("TF_LoadLibrary", POINTER, TEXT, POINTER)
load_model = c_function(
    "TF_LoadSessionFromSavedModel",
    POINTER,
    *(POINTER, POINTER, TEXT, ctypes.POINTER(TEXT), ctypes.c_int, POINTER, POINTER, POINTER),
)


def check(what):
    if get_code(status):
        sys.exit(f"{what}: {get_message(status).decode()}")


for path in sys.argv[2:]:
    load_library(path.encode(), status)
    check(path)
options, graph = c_function("TF_NewSessionOptions", POINTER)(), c_function("TF_NewGraph", POINTER)()
tags = (TEXT * 1)(b"serve")
load_model(options, None, sys.argv[1].encode(), tags, 1, graph, None, status)
check(sys.argv[1])
print("loaded")
