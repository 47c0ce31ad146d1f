"""Families that training never sees: kinds of devices and words of their own."""

from . import values
from .op import Family, Op, Param
from .ops import CLOSE, IS_ON, MOVE, OFF, ON, OPEN, POWER, START, STOP, mode, number, read, timed

_SUGAR = number("gravity", "gravity", values.decimal(1, 20, " plato"), "Degrees Plato", "set")

FAMILIES = (
    Family("apiary", "beehive entrance, hive heater, honey extractor, queen excluder, smoker lid, nectar tray", (ON, OFF, OPEN, CLOSE, IS_ON, timed("run"))),
    Family("brewery", "mash tun, lauter paddle, wort cooler, hop doser, fermenter jacket, bright keg", (ON, OFF, _SUGAR, START, STOP, timed("run"), mode("speed"))),
    Family("observatory", "telescope, dome shutter, dew strap, filter wheel, eyepiece focuser, star tracker", (MOVE, START, STOP, OPEN, CLOSE, POWER,
        Op("slew", "slew {n}|{n} slew|aim {n}|point {n}", "Points the {n} at an object.|Slews the {n}", "slew the {n} to[ {x}]|aim the {n} at[ {x}]|point the {n} at[ {x}]", {"x": Param("object|target name|body", values.pool(["mars", "jupiter", "saturn", "vega", "sirius", "orion nebula", "andromeda", "moon", "venus", "polaris", "pleiades", "rigel"], 0.8), "What to look at", 1.0)}))),
    Family("stage", "fog jet, follow spot, curtain hoist, trapdoor, disco ball, pyro rack", (ON, OFF, POWER, START, STOP, timed("fire"))),
    Family("sauna", "loyly ladle, plunge pool, aroma bowl, salt wall, ice bucket, birch vaporizer", (ON, OFF, START, STOP, IS_ON, timed("run"), number("temperature", "temperature", values.integer(40, 110, " degrees", 5, "degrees/°C"), "°C"))),
    Family("ski", "snow cannon, chairlift, piste groomer, ski rack dryer, avalanche beacon, rope tow", (ON, OFF, START, STOP, IS_ON, mode("drive"))),
    Family("marina", "anchor windlass, bow thruster, shore power, hatch, foghorn, navigation lantern", (ON, OFF, OPEN, CLOSE, START, STOP, POWER)),
    Family("clinic", "infusion drip, x-ray table, oxygen mask, nurse bell, sterilizer drawer, blood fridge", (ON, OFF, START, STOP, IS_ON, timed("run"))),
    Family("bakery", "dough divider, proofing cabinet, flour sifter, cream whipper, croissant sheeter", (START, STOP, ON, OFF, timed("run"), mode("speed"))),
    Family("casino", "slot machine, roulette wheel, card shuffler, chip sorter, jackpot bell", (ON, OFF, START, STOP, IS_ON, POWER)),
    Family("chick", "lambda reading", (read("lambda", "{n}", "points"),)),
    Family("geyser", "geyser height", (read("geyser", "{n}", "m"),)),
    Family("seismic", "tremor magnitude", (read("tremor", "{n}", "points"),)),
    Family("pollen", "pollen count", (read("pollen", "{n}", "grains"),)),
)
