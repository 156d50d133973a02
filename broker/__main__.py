"""This room is the program `python -m broker`."""

import os
import sys

from kafkaserver.compiled import use_what_is_compiled
from muster.kernel.environment import SettingError
from muster.kernel.lean_imports import leave_out_what_serves_nobody

if __name__ == "__main__":
    leave_out_what_serves_nobody()
    try:
        use_what_is_compiled(os.environ)
    except SettingError as error:
        sys.exit(f"broker: {error}")
    from broker.command import main

    sys.exit(main())
