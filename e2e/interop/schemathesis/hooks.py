"""What schemathesis must know that no schema can say."""

import schemathesis


def whole(value):
    """Write whole numbers as such: for schemas 460.0 is an integer, for encoding/json it is none."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [whole(v) for v in value]
    if isinstance(value, dict):
        return {k: whole(v) for k, v in value.items()}
    return value


@schemathesis.hook
def map_body(context, body):
    return whole(body)


@schemathesis.hook
def map_query(context, query):
    return whole(query)
