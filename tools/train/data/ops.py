"""Operations that many devices share."""

from . import pools, values
from .op import Op, Param

PLACE = Param(
    "room|location|place|area|zone|where|room name",
    values.pool(pools.PLACES),
    "Which room|The room|Name of the room|Where it is|Room or area",
    0.6,
)
IN = "[ in the {place}]"

ON = Op(
    "on",
    "turn on {n}|{n} on|switch on {n}|enable {n}|activate {n}|power on {n}|set {n} on|start {n}",
    "Turns the {n} on.|Turn on the {n}|Switches on a {n}.|Switch the {n} on|Activates the {n}|{n} on",
    f"turn on the {{n}}{IN}|turn the {{n}}{IN} on|switch on the {{n}}{IN}|switch the {{n}} on{IN}|{{n}} on{IN}"
    f"|put the {{n}}{IN} on|activate the {{n}}{IN}|enable the {{n}}{IN}|power up the {{n}}{IN}|[{{place}} ]{{n}} on",
    {"place": PLACE},
    "i want the {n}[ in the {place}] on|the {n}[ in the {place}] should be on|the {n}[ in the {place}] is off, change that"
    "|why is the {n} off[ in the {place}]? i need it",
    mate="off",
)
OFF = Op(
    "off",
    "turn off {n}|{n} off|switch off {n}|disable {n}|deactivate {n}|power off {n}|set {n} off|stop {n}",
    "Turns the {n} off.|Turn off the {n}|Switches off a {n}.|Switch the {n} off|Deactivates the {n}|{n} off",
    f"turn off the {{n}}{IN}|turn the {{n}}{IN} off|switch off the {{n}}{IN}|switch the {{n}} off{IN}|{{n}} off{IN}"
    f"|shut off the {{n}}{IN}|disable the {{n}}{IN}|kill the {{n}}{IN}|power down the {{n}}{IN}|[{{place}} ]{{n}} off",
    {"place": PLACE},
    "i don't need the {n}[ in the {place}] any more|the {n}[ in the {place}] should be off|the {n}[ in the {place}] is still on, change that"
    "|nobody needs the {n}[ in the {place}] now",
    mate="on",
)
POWER = Op(
    "power",
    "set {n}|{n} power|switch {n}|control {n}|{n} state|set {n} power|{n} switch|toggle {n}|write {n}",
    "Switches the {n} on or off.|Turns the {n} on or off|Sets the state of the {n}|Controls the {n}.|{n} control",
    f"turn {{state}} the {{n}}{IN}|turn the {{n}}{IN} {{state}}|switch the {{n}}{IN} {{state}}|{{n}} {{state}}{IN}"
    f"|switch {{state}} the {{n}}{IN}|put the {{n}} {{state}}{IN}|set the {{n}}{IN} to {{state}}|[{{place}} ]{{n}} {{state}}",
    {
        "place": PLACE,
        "state": Param(
            "state|on|power|value|status|action|enabled|switch",
            values.switch,
            "New state|On or off|Desired state|Whether it is on",
            1.0,
        ),
    },
    "i want the {n}[ in the {place}] {state}|the {n}[ in the {place}] should be {state}",
)
TOGGLE = Op(
    "toggle",
    "toggle {n}|flip {n}|{n} toggle|invert {n}",
    "Toggles the {n}.|Switches the {n} to the other state|Flips the {n}",
    f"toggle the {{n}}{IN}|flip the {{n}}{IN}|invert the {{n}}{IN}|[{{place}} ]{{n}} toggle",
    {"place": PLACE},
)
LEVEL = Op(
    "level",
    "set {n} level|{n} level|adjust {n}|set {n}|change {n} level|{n} set|{n} intensity|set {n} percent",
    "Sets the level of the {n}.|Sets the {n} to a level in percent|Adjusts the {n}|Changes how strong the {n} is",
    f"set the {{n}}{IN} to[ {{level}}]|put the {{n}}{IN} at[ {{level}}]|adjust the {{n}}{IN}[ to {{level}}]"
    f"|change the {{n}}{IN}[ to {{level}}]|[{{place}} ]{{n}}[ {{level}}]|bring the {{n}}{IN}[ to {{level}}]",
    {
        "place": PLACE,
        "level": Param(
            "level|percent|value|intensity|amount|power|setpoint|strength",
            values.integer(0, 100, "%", 1, "%/percent"),
            "Level in percent|0 to 100|Percent|How much, 0-100|Level from 0 (off) to 100 (full)",
            1.0,
        ),
    },
    "i want the {n}[ in the {place}] at {level}|the {n}[ in the {place}] should be at {level}",
)
OPEN = Op(
    "open",
    "open {n}|{n} open|raise {n}|unshut {n}|set {n} open",
    "Opens the {n}.|Open the {n}|Opens a {n}|Moves the {n} to open",
    f"open the {{n}}{IN}|open up the {{n}}{IN}|get the {{n}}{IN} open|[{{place}} ]{{n}} open",
    {"place": PLACE},
    "the {n}[ in the {place}] should be open|the {n}[ in the {place}] is closed, but i need it open",
    mate="close",
)
CLOSE = Op(
    "close",
    "close {n}|{n} close|shut {n}|lower {n}|set {n} closed",
    "Closes the {n}.|Close the {n}|Closes a {n}|Moves the {n} to closed|Shuts the {n}",
    f"close the {{n}}{IN}|shut the {{n}}{IN}|get the {{n}}{IN} closed|[{{place}} ]{{n}} closed",
    {"place": PLACE},
    "the {n}[ in the {place}] should be closed|the {n}[ in the {place}] is still open, change that",
    mate="open",
)
MOVE = Op(
    "position",
    "set {n} position|move {n}|{n} position|position {n}|drive {n}",
    "Moves the {n} to a position.|Opens the {n} so far, in percent|Sets how far the {n} is open",
    f"move the {{n}}{IN}[ to {{level}}]|set the {{n}}{IN} to[ {{level}}]|open the {{n}}{IN}[ to {{level}}]"
    f"|put the {{n}}{IN} at[ {{level}}]",
    {
        "place": PLACE,
        "level": Param(
            "position|percent|level|opening|value|target",
            values.integer(0, 100, "%", 5, "%/percent"),
            "0 is closed, 100 is open|Position in percent|How far open, in percent",
            1.0,
        ),
    },
)
STATE = Op(
    "openclose",
    "{n}|set {n}|control {n}|move {n}|operate {n}|{n} control",
    "Opens or closes the {n}.|Opens or closes a {n}|Operates the {n}|{n}: open or close",
    f"{{state}} the {{n}}{IN}",
    {
        "place": PLACE,
        "state": Param(
            "state|action|command|position|to|cmd",
            values.choice("open: open, open up; closed: close, shut"),
            "New state|What to do|Open or closed",
            1.0,
        ),
    },
)
STATE_VERB = Op(
    "openclose",
    "{n} command|{n} action|operate {n}|{n} do|control {n}",
    "Opens, closes or stops the {n}.|Commands the {n}|Sends a command to the {n}",
    f"{{state}} the {{n}}{IN}",
    {
        "place": PLACE,
        "state": Param(
            "action|command|cmd|operation|do",
            values.choice("open: open, open up; close: close, shut; stop: stop, halt"),
            "What to do|The command",
            1.0,
        ),
    },
)
LOCK = Op(
    "lock",
    "lock {n}|{n} lock|secure {n}|bolt {n}",
    "Locks the {n}.|Lock the {n}|Secures the {n}",
    f"lock the {{n}}{IN}|lock up the {{n}}{IN}|secure the {{n}}{IN}",
    {"place": PLACE},
    "the {n}[ in the {place}] must be locked|i forgot to lock the {n}[ in the {place}]|make sure nobody gets through the {n}[ in the {place}]",
    mate="unlock",
)
UNLOCK = Op(
    "unlock",
    "unlock {n}|{n} unlock|release {n}|unbolt {n}",
    "Unlocks the {n}.|Unlock the {n}|Releases the {n}",
    f"unlock the {{n}}{IN}|release the {{n}}{IN}",
    {"place": PLACE},
    "i am locked out at the {n}[ in the {place}]|let the guests in through the {n}[ in the {place}]",
    mate="lock",
)
IS_ON = Op(
    "state?",
    "get {n} state|{n} status|is {n} on|check {n}|read {n} state|query {n}|{n} state",
    "Tells whether the {n} is on.|State of the {n}|Returns on or off|Reads the state of the {n}",
    f"check the {{n}}{IN}|tell me if the {{n}} is on{IN}|check whether the {{n}}{IN} is on|get the state of the {{n}}{IN}",
    {"place": PLACE},
    f"is the {{n}} on{IN}?|is the {{n}}{IN} running?|did i leave the {{n}} on{IN}?|what is the state of the {{n}}{IN}?|is the {{n}}{IN} off?",
    reads="state:{n}",
)
IS_OPEN = Op(
    "state?",
    "get {n} state|{n} status|is {n} open|check {n}|read {n} state|query {n}",
    "Tells whether the {n} is open or closed.|State of the {n}|Returns open or closed",
    f"check the {{n}}{IN}|tell me if the {{n}} is open{IN}|check whether the {{n}}{IN} is closed",
    {"place": PLACE},
    f"is the {{n}} open{IN}?|is the {{n}}{IN} closed?|did i close the {{n}}{IN}?|did somebody open the {{n}}{IN}?",
    reads="open:{n}",
)


def mode(pool: str, noun: str = "mode") -> Op:
    """Sets one of the modes in `pool`."""
    return Op(
        "mode",
        f"set {{n}} {noun}|{{n}} {noun}|change {{n}} {noun}|select {{n}} {noun}|choose {{n}} {noun}",
        f"Sets the {noun} of the {{n}}.|Changes the {noun} of the {{n}}|Selects a {noun}|{{n}} {noun}",
        f"set the {{n}}{IN} to[ {{mode}} {noun}]|put the {{n}}{IN} in[ {{mode}} {noun}]|set the {noun} of the {{n}}{IN} to[ {{mode}}]"
        f"|switch the {{n}}{IN} to[ {{mode}}]|change the {{n}} {noun}{IN}[ to {{mode}}]|{{n}}{IN}[ {{mode}} {noun}]",
        {
            "place": PLACE,
            "mode": Param(
                f"{noun}|{noun} name|setting|preset|program|option",
                values.pool(pools.MODES[pool], 0.1, 6),
                f"The {noun}|Which {noun}|New {noun}",
                1.0,
            ),
        },
        f"i want {{mode}} {noun} on the {{n}}{IN}|the {{n}}{IN} should be in {{mode}} {noun}",
    )


def number(group: str, noun: str, kind: values.Kind, about: str, verbs: str = "set") -> Op:
    """Sets a quantity called `noun`."""
    first = verbs.split("/")[0]
    return Op(
        group,
        f"{first} {{n}} {noun}|{{n}} {noun}|change {{n}} {noun}|adjust {{n}} {noun}|{first} {noun} of {{n}}|{first} {{n}}",
        f"Sets the {noun} of the {{n}}.|Changes the {noun} of the {{n}}|{noun} of the {{n}}|Adjusts the {noun}",
        f"set the {{n}}{IN} to[ {{x}}]|set the {noun} of the {{n}}{IN} to[ {{x}}]|change the {{n}} {noun}{IN}[ to {{x}}]"
        f"|put the {{n}}{IN} at[ {{x}}]|{{n}} {noun}{IN}[ {{x}}]|adjust the {{n}}{IN}[ to {{x}}]",
        {"place": PLACE, "x": Param(f"{noun}|target {noun}|value|{noun} value|new {noun}", kind, about, 1.0)},
        f"i want the {{n}}{IN} at {{x}}|the {{n}}{IN} should be at {{x}}",
    )


def read(group: str, what: str, unit: str, about: str = "", hints: str = "") -> Op:
    """Reads a quantity that is called `what` and measured in `unit`."""
    return Op(
        f"{group}?",
        f"get {what}|read {what}|{what}|{what} sensor|measure {what}|query {what}|check {what}|fetch {what}|sensor {what}|{what} read",
        f"Reads the {what}.|Returns the {what} in {unit}|Measures the {what}|Current {what}|Gets the {what} now, in {unit}" + about,
        f"read the {what}{IN}|tell me the {what}{IN}|measure the {what}{IN}|check the {what}{IN}|give me the {what}{IN}|get the {what}{IN}",
        {"place": PLACE},
        f"what is the {what}{IN}?|what's the {what}{IN}?|how high is the {what}{IN}?|[{{place}} ]{what}?|i'd like to know the {what}{IN}" + hints,
        reads=f"{unit}:{what}",
    )


def timed(verbs: str, noun: str = "") -> Op:
    """Runs a device for a while: `verbs` are separated by `/`."""
    first, *more = verbs.split("/")
    asks = "|".join(f"{v} the {{n}}{IN} for[ {{time}}]" for v in [first, *more])
    return Op(
        "timed",
        f"{first} {{n}}|{first} {{n}} for|{{n}} {first}|{{n}} timer|{first} {{n}} timed",
        f"{first.capitalize()}s the {{n}} for some time.|{first.capitalize()} the {{n}} for so many minutes|Runs the {{n}} for a time{noun}",
        asks,
        {
            "place": PLACE,
            "time": Param("minutes|duration|mins|duration minutes|time", values.integer(1, 90, " min", 1, "minutes/min/minutes"), "How long, in minutes|Minutes|Duration in minutes", 1.0),
        },
        f"the {{n}}{IN} should run for {{time}}|i need the {{n}}{IN} for {{time}}",
    )


def programme(pool: str) -> Op:
    """Starts a machine with a programme."""
    return Op(
        "start",
        "start {n}|run {n}|{n} start|begin {n}|launch {n}",
        "Starts the {n}.|Starts the {n} with a program|Runs the {n}",
        "start the {n}[ with {mode}][ for {time}]|run the {n}[ on {mode}][ for {time}]|start the {n}[ on {mode}][ for {time}]",
        {
            "mode": Param("program|mode|programme|cycle", values.pool(pools.MODES[pool], 0.2, 6), "The program|Which program", 0.7),
            "time": Param("minutes|duration|delay minutes", values.integer(5, 120, " min", 5, "minutes/min"), "Minutes|How long in minutes", 0.3),
        },
        "",
        mate="stop",
    )


STOP = Op(
    "stop",
    "stop {n}|{n} stop|halt {n}|abort {n}|cancel {n}|end {n}",
    "Stops the {n}.|Stop the {n}|Halts the {n}|Ends what the {n} does",
    f"stop the {{n}}{IN}|halt the {{n}}{IN}|abort the {{n}}{IN}|make the {{n}}{IN} stop|cancel the {{n}}{IN}",
    {"place": PLACE},
    mate="start",
)
START = Op(
    "start",
    "start {n}|run {n}|{n} start|begin {n}|launch {n}",
    "Starts the {n}.|Start the {n}|Runs the {n}|Gets the {n} going",
    f"start the {{n}}{IN}|run the {{n}}{IN}|get the {{n}}{IN} going|begin the {{n}}{IN}|launch the {{n}}{IN}",
    {"place": PLACE},
    "the {n}[ in the {place}] should start now",
    mate="stop",
)
AT = Op(
    "schedule",
    "schedule {n}|{n} schedule|plan {n}|set {n} schedule|{n} at",
    "Schedules the {n}.|Plans when the {n} runs|Switches the {n} on at a time",
    f"schedule the {{n}}{IN}[ for {{time}}][ {{day}}]|start the {{n}}{IN}[ at {{time}}][ {{day}}]|plan the {{n}}{IN}[ for {{time}}][ {{day}}]",
    {
        "place": PLACE,
        "time": Param("time|at|start time|when|start", values.clock, "When|Start time|The time", 1.0),
        "day": Param("day|date|on day|weekday", values.pool(pools.DAYS, 0.6), "Which day|Day of the week", 0.2),
    },
    "the {n}[ in the {place}] should start at {time}",
)
