"""Subscribes to a switch with pygnmi and prints what it sends: python3 subscribe.py ADDRESS TARGET PATH MODE SECONDS USER PASSWORD ENCODING."""
import json
import sys
import time

from pygnmi.client import gNMIclient, telemetryParser

address, target, path, mode, seconds, user, password, encoding = sys.argv[1:]
host, port = address.rsplit(":", 1)
one = {"path": path, "mode": mode}
if mode == "sample":
    one["sample_interval"] = int(float(seconds) * 1e9)
subscription = {"subscription": [one], "mode": "stream", "encoding": encoding}
try:
    with gNMIclient(target=(host, int(port)), username=user or "any", password=password or "any", insecure=True) as client:
        print(json.dumps({"version": client.capabilities()["gnmi_version"]}), flush=True)
        end = time.time() + 20
        # `subscribe2` takes a target and hides errors; `subscribe` takes none and raises them.
        if target:
            messages = client.subscribe2(subscribe=subscription, target=target)
        else:
            messages = map(telemetryParser, client.subscribe(subscribe=subscription))
        for message in messages:
            print(json.dumps(message), flush=True)
            if time.time() > end:
                break
except Exception as error:  # the test reads it
    print(json.dumps({"error": str(error)}), flush=True)
    sys.exit(1)
