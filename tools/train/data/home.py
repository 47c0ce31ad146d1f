"""Devices in houses."""

from . import pools, values
from .op import Family, Op, Param
from .ops import (
    AT,
    CLOSE,
    IN,
    IS_ON,
    IS_OPEN,
    LEVEL,
    LOCK,
    MOVE,
    OFF,
    ON,
    OPEN,
    PLACE,
    POWER,
    START,
    STATE,
    STATE_VERB,
    STOP,
    TOGGLE,
    UNLOCK,
    mode,
    number,
    programme,
    read,
    timed,
)

_DARK = Op(ON.group, ON.names, ON.about, ON.asks, ON.params, ON.hints + "|it's dark in the {place}|it is too dark[ in the {place}]|i can't see anything[ in the {place}]|it's so dark in here|let there be light[ in the {place}]|i can hardly read[ in the {place}]", mate="off")
_BRIGHT = Op(OFF.group, OFF.names, OFF.about, OFF.asks, OFF.params, OFF.hints + "|it's too bright[ in the {place}]|i am going to bed, no light[ in the {place}]|we are wasting light[ in the {place}]", mate="on")
_WARM = Op(ON.group, ON.names, ON.about, ON.asks, ON.params, ON.hints + "|it's cold[ in the {place}]|i am freezing[ in the {place}]|it is chilly in the {place}|my feet are cold", mate="off")
_COOL = Op(ON.group, ON.names, ON.about, ON.asks, ON.params, ON.hints + "|it's hot[ in the {place}]|i am sweating[ in the {place}]|it is far too warm[ in the {place}]|the air is stuffy[ in the {place}]", mate="off")

_BRIGHTNESS = number("level", "brightness", values.integer(0, 100, "%", 5, "%/percent"), "Brightness in percent|0-100|How bright, 0 to 100|Percent", "set/dim")
_COLOR = Op(
    "color",
    "set {n} color|{n} color|color {n}|change {n} color|paint {n}",
    "Sets the colour of the {n}.|Changes the color of the {n}|Color of the {n}",
    f"make the {{n}}{IN}[ {{color}}]|set the {{n}}{IN} to[ {{color}}]|turn the {{n}}{IN}[ {{color}}]|color the {{n}}{IN}[ {{color}}]|change the {{n}} color{IN}[ to {{color}}]",
    {"place": PLACE, "color": Param("color|colour|value|hue|light color", values.pool(pools.COLORS), "The color|Color name|New colour", 1.0)},
    "i want {color} light from the {n}[ in the {place}]",
)
_RGB = Op(
    "color",
    "set {n} rgb|{n} rgb|{n} color rgb",
    "Sets red, green and blue of the {n}.|RGB color of the {n}",
    f"set the {{n}}{IN} to[ {{color}}]|make the {{n}}{IN}[ {{color}}]",
    {"place": PLACE, "color": Param("color|rgb|value", values.record({"r": values.integer(0, 255), "g": values.integer(0, 255), "b": values.integer(0, 255)}, "red {r}, green {g}, blue {b}"), "Parts from 0 to 255", 1.0)},
)
_HEX = Op(
    "color", "set {n} hex|{n} color|{n} hex color", "Sets the colour of the {n} as #RRGGBB.|Hex colour of the {n}",
    f"set the {{n}}{IN} to[ {{color}}]|make the {{n}}{IN}[ {{color}}]", {"place": PLACE, "color": Param("hex|color|code", values.made(values.hexcolor), "#RRGGBB|Hex code", 1.0)},
)
_BLINK = Op(
    "blink", "blink {n}|flash {n}|{n} blink", "Blinks the {n} some times.|Flashes the {n}",
    f"blink the {{n}}{IN}[ {{count}}]|flash the {{n}}{IN}[ {{count}}]|make the {{n}} blink{IN}[ {{count}}]",
    {"place": PLACE, "count": Param("times|count|number|repeat", values.integer(1, 20, " times", 1, "times"), "How often|Number of times", 0.7)},
)
_TEMP = number("temperature", "temperature", values.decimal(5, 30, " degrees"), "Degrees Celsius|Target in °C|Temperature in degrees", "set")
_HOT = number("temperature", "temperature", values.integer(30, 250, " degrees", 5, "degrees/degrees celsius/°C/C"), "Degrees Celsius|°C|Target temperature", "set/heat")
_TIMER = Op(
    "set timer", "set {n} timer|{n} timer|{n} auto off", "Sets a timer of the {n}, in minutes.|Timer of the {n}",
    "set the {n} timer[ to {time}]|set a timer of[ {time}] on the {n}", {"time": Param("minutes|duration|time", values.integer(1, 120, " min", 1, "minutes/min"), "Minutes", 1.0)},
)
_SPEED = number("speed", "speed", values.integer(1, 10), "1 to 10|Speed level|Step 1-10", "set")

FAMILIES = (
    Family("light", """light/lamp, ceiling light, floor lamp, desk lamp, night light, led strip/led, chandelier, spotlight,
        reading light, wall lamp, mirror light, cabinet light, lantern, fairy lights, garden light, porch light, string lights,
        flood light, pendant lamp, bedside lamp, mood light, stair light, lava lamp, neon sign, path lights""",
        (_DARK, _BRIGHT, POWER, _BRIGHTNESS, _COLOR, _RGB, _HEX, _BLINK, TOGGLE, mode("light", "scene"), IS_ON, LEVEL)),
    Family("plug", """plug/smart plug, outlet/socket, relay, power strip, extension cord, switch, contactor, circuit, breaker,
        relay board, mains switch, wall socket, charger, charging dock""", (ON, OFF, POWER, TOGGLE, IS_ON, AT, timed("run/enable"))),
    Family("heating", """heater, radiator, floor heating/underfloor heating, fireplace, boiler, heat pump, electric blanket,
        towel warmer, infrared panel, space heater, storage heater, pellet stove, convector, stove""",
        (_WARM, OFF, POWER, _TEMP, mode("climate"), IS_ON, AT, LEVEL, timed("run/heat with"))),
    Family("thermostat", "thermostat, climate control, hvac, room controller, radiator valve, heating controller", (_TEMP, mode("climate"), ON, OFF, read("setpoint", "setpoint", "°C"))),
    Family("cooling", """fan/ventilator, air conditioner/ac, ceiling fan, extractor, exhaust fan, swamp cooler, air handler,
        vent fan, desk fan, tower fan, range hood, blower""", (_COOL, OFF, POWER, _SPEED, mode("speed", "speed"), TOGGLE, IS_ON, LEVEL, timed("run"))),
    Family("air", "humidifier, dehumidifier, air purifier, ionizer, scent diffuser, ventilation, air freshener, ozone generator", (ON, OFF, POWER, LEVEL, mode("speed", "mode"), IS_ON, timed("run"))),
    Family("lock", """door, front door, back door, gate, side door, smart lock, deadbolt, safe, locker, cabinet, mailbox, gun cabinet,
        cellar door, patio door, bike lock, turnstile""", (LOCK, UNLOCK, OPEN, CLOSE, IS_OPEN, STATE)),
    Family("cover", """blinds/blind, curtains/drapes, shutters, awning, garage door, skylight, window, roller shade, sunshade,
        roof window, screen door, louvres, canopy, barrier, sliding gate, pergola roof, damper, projector screen""",
        (OPEN, CLOSE, STATE, STATE_VERB, MOVE, STOP, IS_OPEN)),
    Family("kitchen", """oven, microwave, kettle, toaster, coffee machine/coffee maker, dishwasher, rice cooker, slow cooker, fridge, freezer,
        air fryer, sous vide, stove top, bread maker, espresso machine, ice maker, grill, waffle iron, blender, juicer, wok burner""",
        (ON, OFF, POWER, _HOT, programme("cook"), STOP, mode("cook"), _TIMER, IS_ON, AT)),
    Family("laundry", "washing machine/washer, dryer/tumble dryer, iron, steam press, spin dryer, clothes rack heater, shoe dryer", (programme("wash"), STOP, mode("wash", "program"), IS_ON, AT, ON, OFF)),
    Family("cleaning", "vacuum/robot vacuum, mop robot, window cleaner, lawn mower/mower, pool cleaner, gutter robot, litter box, floor scrubber, air duct cleaner", (START, STOP, mode("clean"), IS_ON, AT, programme("clean"))),
    Family("entertainment", """tv/television, radio, stereo, speaker, soundbar, projector, amplifier, record player, game console, media player,
        set-top box, jukebox, subwoofer, cd player, turntable, karaoke machine""", (ON, OFF, POWER, LEVEL, TOGGLE, IS_ON,
        number("volume", "volume", values.integer(0, 100, "%", 1, "%/percent"), "0 to 100|Volume in percent"),
        Op("source", "set {n} source|{n} input|select {n} input|{n} source", "Selects the input of the {n}.|Source of the {n}", f"switch the {{n}}{IN} to[ {{source}}]|set the {{n}} input{IN} to[ {{source}}]|change the {{n}}{IN} to[ {{source}}]",
           {"place": PLACE, "source": Param("source|input|channel", values.choice("hdmi1: hdmi 1, hdmi1; hdmi2: hdmi 2, hdmi2; usb: usb; bluetooth: bluetooth; aux: aux; tuner: the tuner, tuner"), "Which input", 1.0)}),
        Op("channel", "set {n} channel|{n} channel|tune {n}|{n} station", "Sets the channel of the {n}.|Tunes the {n}", f"put the {{n}}{IN} on channel[ {{x}}]|switch the {{n}}{IN} to channel[ {{x}}]|set the {{n}} channel{IN} to[ {{x}}]",
           {"place": PLACE, "x": Param("channel|number|station", values.integer(1, 99), "Channel number|1 to 99", 1.0)}))),
    Family("bath", "bathtub, shower, toilet seat, bidet, steam room, hot tub/jacuzzi, mirror heater, water heater, towel rail, foot spa", (ON, OFF, _TEMP, POWER, START, STOP, IS_ON, LEVEL)),
    Family("furniture", "standing desk, bed, recliner, massage chair, crib, cradle, tv lift, ottoman, wardrobe lift", (
        number("height", "height", values.integer(40, 130, " cm", 1, "cm/centimeters"), "Height in cm|Centimetres", "set"), STOP, MOVE, mode("drive"), TOGGLE)),
    Family("pets", "pet feeder/feeder, water bowl, cat flap, dog door, treat dispenser, hamster wheel, bird feeder, pet fountain, aviary heater", (ON, OFF, OPEN, CLOSE, IS_ON,
        Op("dispense", "dispense from {n}|{n} dispense|feed with {n}|{n} feed", "Dispenses food from the {n}, in grams.|Feeds from the {n}", "dispense[ {x}] from the {n}|let the {n} give[ {x}]|feed[ {x}] with the {n}",
           {"x": Param("grams|amount|portion|amount grams", values.integer(5, 200, " g", 5, "g/grams"), "Grams|Amount in grams", 1.0)}))),
    Family("security", "alarm system/alarm, siren, motion detector, doorbell, intercom, security system, panic button, glass break sensor, tripwire, strobe", (
        ON, OFF, POWER, mode("house"), IS_ON, TOGGLE,
        Op("arm", "arm {n}|{n} arm|set {n} armed", "Arms the {n}.|Arm the {n}", f"arm the {{n}}{IN}|set the {{n}}{IN} armed", {"place": PLACE}, "we are leaving, guard the house with the {n}|nobody is home, so use the {n}[ in the {place}]", mate="disarm"),
        Op("disarm", "disarm {n}|{n} disarm|set {n} disarmed", "Disarms the {n}.|Disarm the {n}", "disarm the {n}[ with code {code}]", {"code": Param("code|pin|password", values.made(values.code), "The code|PIN", 0.6)}, mate="arm"))),
    Family("camera", "camera, webcam, baby monitor, dash cam, trail camera, doorbell camera, dome camera, wildlife cam, thermal camera", (
        ON, OFF, IS_ON,
        Op("photo", "take photo with {n}|{n} snapshot|snapshot {n}|{n} photo|capture {n}", "Takes a picture with the {n}.|Snapshot of the {n}|Takes a photo", f"take a photo with the {{n}}{IN}|take a picture{IN} with the {{n}}|snapshot from the {{n}}{IN}|capture an image with the {{n}}{IN}", {"place": PLACE}, "show me what the {n}[ in the {place}] sees", reads="file:{n}"),
        Op("record", "record {n}|{n} record|start recording {n}|{n} video", "Records a video with the {n}.|Records so many seconds", f"record[ {{x}}] with the {{n}}{IN}|film[ {{x}}] with the {{n}}{IN}", {"place": PLACE, "x": Param("seconds|duration|length|duration seconds", values.integer(5, 120, " s", 5, "seconds/s"), "Seconds|How long, in seconds", 0.9)}),
        Op("pan", "pan {n}|{n} pan|turn {n}|{n} move|rotate {n}", "Turns the {n}.|Pans the {n} to a side", f"pan the {{n}}{IN} to the[ {{dir}}]|turn the {{n}}{IN} to the[ {{dir}}]", {"place": PLACE, "dir": Param("direction|side|to", values.choice("left: left; right: right"), "Which side", 1.0)}))),
)
