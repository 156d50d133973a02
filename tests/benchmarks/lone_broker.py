"""This room runs the benchmarks' broker as brokers run: compiled, where there is a build that fits."""

import os

from kafkaserver.compiled import use_what_is_compiled

if __name__ == "__main__":
    use_what_is_compiled(os.environ)
    from tests.benchmarks.produce_consume_broker import main

    main()
