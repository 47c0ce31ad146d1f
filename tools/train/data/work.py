"""Devices of gardens, workshops, vehicles, farms and networks."""

from . import pools, values
from .op import Family, Op, Param
from .ops import (
    AT,
    CLOSE,
    IS_ON,
    IS_OPEN,
    LEVEL,
    LOCK,
    MOVE,
    OFF,
    ON,
    OPEN,
    POWER,
    START,
    STATE,
    STATE_VERB,
    STOP,
    UNLOCK,
    mode,
    number,
    read,
    timed,
)

_DRY = Op(ON.group, ON.names, ON.about, ON.asks, ON.params, ON.hints + "|the plants look dry[ in the {place}]|the soil is bone dry[ in the {place}]|my tomatoes need water", mate="off")
_RPM = number("speed", "speed", values.integer(100, 6000, " rpm", 50, "rpm"), "Revolutions per minute|rpm", "set")
_FLOW = number("flow", "flow", values.decimal(0.5, 20, " litres"), "Litres per minute|Flow rate", "set")
_HEAT = number("temperature", "temperature", values.integer(20, 280, " degrees", 5, "degrees/°C/C"), "Degrees Celsius|°C", "set/heat")
_DIR = values.choice("forward: forward, forwards, ahead; backward: backward, backwards, back; left: left; right: right")
_GO = Op(
    "drive", "move {n}|drive {n}|{n} move|{n} go|steer {n}", "Moves the {n} in a direction.|Drives the {n} so far|Moves the {n}",
    "move the {n}[ {dir}][ {dist}]|drive the {n}[ {dir}][ {dist}]|let the {n} go[ {dir}][ {dist}]|send the {n}[ {dir}][ {dist}]",
    {"dir": Param("direction|dir|heading", _DIR, "Which way|Direction", 1.0), "dist": Param("distance|cm|centimeters|distance cm", values.integer(5, 300, " cm", 5, "cm/centimeters"), "Distance in cm|How far, cm", 0.6)},
)
_TURN = Op(
    "turn", "rotate {n}|turn {n}|{n} turn|{n} rotate|spin {n}", "Turns the {n} by an angle.|Rotates the {n}, in degrees",
    "rotate the {n}[ by {x}]|turn the {n}[ by {x}]|spin the {n}[ {x}]", {"x": Param("degrees|angle|deg|by", values.integer(5, 355, " degrees", 5, "degrees/deg"), "Degrees|Angle in degrees", 1.0)},
)
_HOME = Op("home", "home {n}|{n} home|dock {n}|{n} return|park {n}", "Sends the {n} home.|Returns the {n} to its dock|Homes the {n}", "send the {n} home|dock the {n}|home the {n}|bring the {n} back to its dock|park the {n}", {}, "the {n} should go back to its station")
_GOTO = Op(
    "goto", "{n} goto|move {n} to|position {n}|{n} move to", "Moves the {n} to a point.|Goes to a position", "move the {n} to[ {pos}]|send the {n} to[ {pos}]|drive the {n} to[ {pos}]",
    {"pos": Param("position|target|point|pos|to", values.record({"x": values.integer(0, 200), "y": values.integer(0, 200)}, "x {x} y {y}"), "The point|Coordinates", 1.0)},
)
_LOCATE = Op("locate", "locate {n}|find {n}|{n} location|where is {n}", "Tells where the {n} is.|Position of the {n}", "locate the {n}|find the {n}|tell me where the {n} is", {}, "where is the {n}?|where did i leave the {n}?|i can't find the {n}", reads="place:{n}")
_CHARGE = Op("charge", "charge {n}|{n} charge|{n} charge limit|set {n} charge limit", "Charges the {n} up to a limit.|Charges the {n}", "charge the {n}[ to {x}]", {"x": Param("limit|percent|level|target|soc", values.integer(20, 100, "%", 5, "%/percent"), "Percent", 0.8)}, "the {n} should be charged to {x}")
_BATTERY = Op("battery?", "get {n} battery|{n} battery|{n} charge level|read {n} battery", "Battery of the {n} in percent.|Reads the {n}'s battery", "check the {n} battery|tell me the battery of the {n}|read the {n} battery", {}, "how full is the {n} battery?|how much battery does the {n} have?", reads="%:{n} battery")
_PROGRESS = Op("progress?", "{n} progress|get {n} progress|{n} status|{n} remaining", "How far the {n} is.|Progress of the {n}", "check the {n} progress|tell me how far the {n} is", {}, "how far is the {n}?|is the {n} done yet?|how long will the {n} take?", reads="%:{n} progress")
_JOB = Op(
    "job", "{n} print|print on {n}|{n} run file|start {n} job|send to {n}", "Runs a file on the {n}.|Sends a file to the {n}|Prints a file",
    "print[ {file}] on the {n}[, {count}]|send[ {file}] to the {n}[, {count}]|run[ {file}] on the {n}[, {count}]",
    {"file": Param("file|path|filename|document|job", values.made(values.path), "The file|File name|Path of the file", 1.0), "count": Param("copies|count|number|n", values.integer(1, 20, " copies", 1, "copies/times"), "How many copies", 0.2)},
)
_FILL = Op("fill", "fill {n}|{n} fill|refill {n}", "Fills the {n}, in litres.|Fills the {n}", "fill the {n}[ with {x}]|put[ {x}] into the {n}", {"x": Param("liters|litres|amount|volume", values.integer(1, 90, " litres", 1, "litres/liters/l"), "Litres|How many litres", 0.9)}, mate="drain")
_DRAIN = Op("drain", "drain {n}|{n} drain|empty {n}", "Drains the {n}.|Empties the {n}", "drain the {n}|empty the {n}|let the water out of the {n}", {}, mate="fill")
_DOSE = Op("dose", "dose {n}|{n} dose|add with {n}", "Doses from the {n}, in millilitres.|Adds ml from the {n}", "dose[ {x}] from the {n}|add[ {x}] from the {n}", {"x": Param("ml|milliliters|amount|dose", values.integer(1, 250, " ml", 1, "ml/millilitres"), "Millilitres|ml", 1.0)})
_HONK = Op("honk", "honk {n}|{n} horn|sound {n} horn", "Sounds the horn of the {n}.|Honks", "honk the {n}|sound the horn of the {n}|beep the {n} horn", {})
_TARE = Op("tare", "tare {n}|{n} tare|zero {n}|calibrate {n}|reset {n}|{n} reset", "Sets the {n} to zero.|Resets the {n}|Calibrates the {n}", "tare the {n}|zero the {n}|calibrate the {n}|reset the {n}", {})
_WATER = timed("water with/run")

FAMILIES = (
    Family("valve", """valve, water valve, gas valve, ball valve, main valve, bypass valve, steam valve, air valve, drain valve, solenoid,
        mixing valve, relief valve, zone valve, hydrant, stopcock, faucet/tap, needle valve, sluice, penstock""", (OPEN, CLOSE, STATE, STATE_VERB, MOVE, IS_OPEN, timed("open"), _FLOW)),
    Family("pump", """pump, water pump, sump pump, circulation pump, well pump, dosing pump, fountain, fuel pump, vacuum pump, bilge pump,
        pool pump, heat circulator, slurry pump, booster pump, transfer pump""", (ON, OFF, POWER, _FLOW, LEVEL, IS_ON, timed("run"), START, STOP, AT)),
    Family("garden", """sprinkler, irrigation/watering, drip line, soaker hose, mister, lawn sprinkler, garden hose, greenhouse fan, grow lamp,
        misting line, hedge irrigation, bed watering, rain barrel pump, roof vent, compost aerator""", (_DRY, OFF, START, STOP, mode("water"), timed("run/water with"), AT, IS_ON, POWER)),
    Family("aquarium", "aquarium light, fish tank heater, air stone, wave maker, co2 injector, protein skimmer, aquarium filter, fish feeder, terrarium lamp, vivarium fogger, algae scrubber, pond skimmer", (ON, OFF, POWER, LEVEL, IS_ON, timed("run"), AT, _TARE)),
    Family("tank", "tank, water tank, cistern, reservoir, basin, trough, fish tank, vat, bathtub basin, rain barrel, silo, hopper", (_FILL, _DRAIN, OPEN, CLOSE)),
    Family("dosing", "fertilizer, chlorine, ph minus, nutrient mix, soap dispenser, hand sanitizer, coolant, flocculant, ph plus, algaecide, iron supplement, lubricant, dye", (_DOSE,)),
    Family("printer", "printer, label printer, laser printer, receipt printer, plotter, photo printer, badge printer, scanner, copier, embosser", (_JOB, STOP, mode("print"), _PROGRESS, ON, OFF, IS_ON)),
    Family("maker", "3d printer, cnc mill, laser engraver, vinyl cutter, resin printer, cnc router, wire bender, pen plotter, pick and place machine, reflow oven, glass kiln", (_JOB, STOP, _HEAT, _PROGRESS, _HOME, mode("print"), _RPM, _GOTO)),
    Family("hot parts", "nozzle, print bed, hotend, chamber, extruder, heated bed, crucible, hot plate, soldering iron, glue gun, preheater, wax pot", (_HEAT, ON, OFF, read("temperature", "hot part temperature", "°C"))),
    Family("robot", "robot, rover, robot arm, drone, gripper, turtle bot, camera gimbal, crawler, hexapod, delivery bot, toy car, quadcopter, telepresence bot, explorer bot", (_GO, _TURN, _HOME, _GOTO, STOP, mode("drive"), _BATTERY, _LOCATE)),
    Family("motion", "servo, stepper, motor, actuator, linear actuator, turntable base, winch, conveyor, carousel, rotator, hoist, spindle, elevator motor, mixer shaft, drum", (_TURN, _RPM, STOP, START, MOVE, ON, OFF, POWER)),
    Family("vehicle", "car, truck, van, e-bike, scooter, tractor, boat, camper, motorcycle, forklift, golf cart, bus, trailer, quad bike, wheelchair", (LOCK, UNLOCK, START, STOP, _CHARGE, _BATTERY, _LOCATE, _HONK)),
    Family("power", "battery bank, solar inverter, generator, wall box, ups, wind turbine, fuel cell, grid tie, power wall, charge controller, diesel genset, load bank", (ON, OFF, START, STOP, mode("drive"), _CHARGE, _BATTERY, IS_ON, LEVEL)),
    Family("workshop", "table saw, lathe, drill press, compressor, dust collector, welder, band saw, grinder, milling machine, bench grinder, paint booth, sand blaster, planer, belt sander, nail gun", (ON, OFF, _RPM, START, STOP, IS_ON, timed("run"))),
    Family("farm", "milking machine, hay elevator, egg conveyor, feed auger, cattle gate, incubator, grain dryer, pasture fence, chicken door, silage mixer, brooder lamp, manure scraper", (ON, OFF, START, STOP, IS_ON, AT, timed("run"), LEVEL)),
    Family("industry", "furnace, autoclave, centrifuge, press, packaging line, bottling line, mixer, chiller, cooling tower, crane, agitator, palletizer, screw conveyor, crusher, sorting belt, dye bath", (START, STOP, _RPM, _HEAT, IS_ON, ON, OFF, LEVEL, _PROGRESS)),
    Family("scale", "scale, load cell, flow meter, ph probe, pressure gauge, gyroscope, compass, encoder, tachometer, oscilloscope, spectrometer, odometer, tide gauge", (_TARE, ON, OFF, IS_ON)),
    Family("display", "display, sign, billboard, e-paper, led matrix, ticker, screen, lcd, status board, scoreboard, price tag, marquee, name plate", (
        Op("show", "show on {n}|{n} text|{n} show|write {n}|{n} print|display on {n}", "Shows a text on the {n}.|Writes text on the {n}|Prints a line on the {n}", "show[ {text}] on the {n}|write[ {text}] on the {n}|display[ {text}] on the {n}|put[ {text}] on the {n}",
           {"text": Param("text|message|content|line|msg", values.text(pools.MESSAGES), "What to show|The text", 1.0)}),
        Op("clear", "clear {n}|{n} clear|wipe {n}|blank {n}", "Clears the {n}.|Blanks the {n}", "clear the {n}|blank the {n}|wipe the {n}", {}), ON, OFF, LEVEL)),
    Family("network device", "router, modem, access point, firewall, switch port, repeater, guest wifi, nas, vpn, dns server, web server, proxy, media server, database, mail server, message broker, cache server", (
        ON, OFF, IS_ON, START, STOP,
        Op("restart", "restart {n}|reboot {n}|{n} restart|{n} reboot|reset {n}", "Restarts the {n}.|Reboots the {n}", "restart the {n}|reboot the {n}|power cycle the {n}|restart the {n}[ in {x}]", {"x": Param("delay|seconds|in seconds|wait", values.integer(5, 90, " seconds", 5, "seconds/s"), "Seconds to wait", 0.1)}, "the {n} hangs again|the {n} needs a fresh start"))),
)

_SENSED = """temperature:°C, humidity:%, air pressure:hPa, co2 level:ppm, light level:lux, noise level:dB, soil moisture:%,
wind speed:km/h, rainfall:mm, uv index:points, power consumption:W, voltage:V, current:A, water level:cm, water temperature:°C,
ph value:pH, flow rate:l/min, tank level:%, dust level:µg/m³, radon level:Bq/m³, gas usage:m³, energy today:kWh, solar power:W,
battery voltage:V, fuel level:%, tyre pressure:bar, oil temperature:°C, weight:kg, distance:cm, vibration:mm/s, dew point:°C,
salinity:ppt, oxygen level:%, smoke density:%, cpu temperature:°C, free memory:MB, disk usage:%, network latency:ms,
signal strength:dBm, frequency:Hz, torque:Nm, visitor count:people, door count:times, snow depth:cm, wave height:m,
leaf wetness:%, nitrate level:mg/l, turbidity:NTU, heart rate:bpm, step count:steps, fan speed:rpm, pulse width:µs,
oven temperature:°C, freezer temperature:°C, pool temperature:°C, fridge temperature:°C, outside temperature:°C, room temperature:°C"""


def _sensors() -> tuple[Family, ...]:
    rows = [r.split(":") for r in _SENSED.replace("\n", " ").split(",")]
    return tuple(Family(f"sensor {what.strip()}", what.strip(), (read(what.strip(), "{n}", unit.strip()),)) for what, unit in rows)


SENSORS = _sensors()
