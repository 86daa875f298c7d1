"""`python -m tandem_onnx` is the program `tandem`."""
import os
import pathlib
import sys


def program():
    """The program's path: in the package's bin/, or, of a build folder, two folders above the package."""
    here = pathlib.Path(__file__).parent
    build = os.environ.get("TANDEM_PROGRAM", "")
    for path in (pathlib.Path(build) if build else None, here / "bin" / "tandem"):
        if path and path.is_file():
            return str(path)
    sys.exit("error: the package holds no program (bin/tandem)")


def main():
    path = program()
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
