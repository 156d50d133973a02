"""This room says how Django writes times by itself, as among the rows: to the second, with their zone."""

DATETIME_FORMAT = "Y-m-d H:i:s T"
