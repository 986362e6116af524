"""What a client of Eclipse Paho sees of MQTT 5, as one line of JSON: python paho-5.py PORT"""

import json
import queue
import sys

from paho.mqtt.client import CallbackAPIVersion, Client, MQTTv5
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

WAIT_S = 20
port = int(sys.argv[1])
seen = {}
connected, subscribed, published, heard, left = (queue.Queue() for _ in range(5))

client = Client(CallbackAPIVersion.VERSION2, client_id="", protocol=MQTTv5)
client.on_connect = lambda _c, _u, _f, reason, properties: connected.put((reason, properties))
client.on_subscribe = lambda _c, _u, _mid, reasons, _p: subscribed.put(reasons)
client.on_publish = lambda _c, _u, *told: published.put(told)
client.on_message = lambda _c, _u, message: heard.put(message)
client.on_disconnect = lambda _c, _u, _f, reason, _p: left.put(reason)

wishes = Properties(PacketTypes.CONNECT)
wishes.SessionExpiryInterval = 60
client.connect("127.0.0.1", port, clean_start=True, properties=wishes)
client.loop_start()
reason, told = connected.get(timeout=WAIT_S)
seen["connack"] = reason.value
seen["assigned"] = told.AssignedClientIdentifier.startswith("auto-")
seen["receiveMaximum"] = told.ReceiveMaximum

identified = Properties(PacketTypes.SUBSCRIBE)
identified.SubscriptionIdentifier = 7
options = SubscribeOptions(qos=2, noLocal=False, retainAsPublished=True)
client.subscribe("room/#", options=options, properties=identified)
client.subscribe("$share/workers/jobs/#", options=SubscribeOptions(qos=1))
seen["granted"] = [reason.value for _ in range(2) for reason in subscribed.get(timeout=WAIT_S)]

carried = Properties(PacketTypes.PUBLISH)
carried.UserProperty = [("b", "1"), ("a", "2"), ("b", "3")]
carried.ResponseTopic = "answers/1"
carried.CorrelationData = b"\x00\x01"
carried.MessageExpiryInterval = 60
for qos in (0, 1, 2):
    client.publish("room/light", f"{qos}", qos=qos, properties=carried)
    message = heard.get(timeout=WAIT_S)
    own = message.properties
    seen[f"heard{qos}"] = [
        message.payload.decode(),
        message.qos,
        own.UserProperty,
        own.ResponseTopic,
        own.CorrelationData.hex(),
        own.SubscriptionIdentifier,
    ]
client.publish("jobs/a", "job", qos=1)
seen["job"] = heard.get(timeout=WAIT_S).payload.decode()

# What becomes of measurements.
for name, payload in (("stored", "21.5"), ("refused", "no number")):
    wanted = client.publish("sensors/paho/m", payload, qos=1).mid
    mid = None
    while mid != wanted:
        mid, reason, told = published.get(timeout=WAIT_S)
    seen[name] = reason.value
    seen[f"{name}Because"] = getattr(told, "ReasonString", None) is not None

client.disconnect()
client.loop_stop()
seen["left"] = left.get(timeout=WAIT_S).value
print(json.dumps(seen))
