"""`python -m convgrad` is the command `convgrad`."""

import sys

from convgrad.cli import main

sys.exit(main())
