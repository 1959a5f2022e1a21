# Runs a program that is not trusted, and answers calls of its functions. What it reads and writes is plain data, a JSON text on each line.
# Objects that are no plain data stay here: the other side knows them by a number.
import sys, os, json

requests = os.fdopen(3, "r", encoding="utf-8", newline="\n")
answers = os.fdopen(4, "w", encoding="utf-8", newline="\n")
objects = []


def pack(v, depth=0):
    if depth > 200:
        raise ValueError("the value is nested too deeply")
    t = type(v)
    if v is None or t is bool or t is str:
        return v
    if t is int:
        return {"i": hex(v)}
    if t is float:
        return {"f": v.hex()}
    if t is complex:
        return {"c": [v.real.hex(), v.imag.hex()]}
    if t is bytes or t is bytearray:
        return {"b": bytes(v).hex()}
    for base, name in ((list, "l"), (tuple, "t"), (set, "s"), (frozenset, "z")):
        if isinstance(v, base):
            return {name: [pack(x, depth + 1) for x in base.__iter__(v)]}
    if isinstance(v, dict):
        return {"d": [[pack(k, depth + 1), pack(x, depth + 1)] for k, x in dict.items(v)]}
    if isinstance(v, (bool, int)):
        return {"i": hex(int(v))}
    if isinstance(v, float):
        return {"f": float(v).hex()}
    if isinstance(v, str):
        return str(v)
    if hasattr(t, "__next__"):
        out = []
        for x in v:
            out.append(pack(x, depth + 1))
            if len(out) > 100000:
                raise ValueError("the iterator does not end")
        return {"n": out}
    objects.append(v)
    return {"o": len(objects) - 1, "call": callable(v)}


def unpack(v):
    if not isinstance(v, dict):
        return v
    (k, x), = ((k, x) for k, x in v.items() if k != "call")
    if k == "i":
        return int(x, 16)
    if k == "f":
        return float.fromhex(x)
    if k == "c":
        return complex(float.fromhex(x[0]), float.fromhex(x[1]))
    if k == "b":
        return bytes.fromhex(x)
    if k == "o":
        return objects[x]
    if k == "d":
        return {unpack(a): unpack(b) for a, b in x}
    return {"l": list, "t": tuple, "s": set, "z": frozenset, "n": iter}[k]([unpack(e) for e in x])


def answer(v):
    answers.write(json.dumps(v) + "\n")
    answers.flush()


def run(request):
    kind = request["do"]
    if kind == "names":
        return [[k, {"m": v.__name__} if type(v) is type(sys) else pack(v)] for k, v in list(module.items()) if not k.startswith("__")]
    if kind == "call":
        args = [unpack(a) for a in request["args"]]
        result = objects[request["object"]](*args, **{k: unpack(v) for k, v in request["named"].items()})
        return [pack(result), [pack(a) for a in args]]
    if kind == "get":
        return pack(getattr(objects[request["object"]], request["name"]))
    raise ValueError("unknown request")


module = {"__name__": "program", "__builtins__": __builtins__}


def main():
    for line in requests:
        request = json.loads(line)
        try:
            if request["do"] == "exec":
                exec(compile(request["text"], "program.py", "exec"), module)
                answer({"value": None})
            else:
                answer({"value": run(request)})
        except BaseException as e:
            answer({"error": type(e).__name__, "text": str(e)[:500]})


main()
