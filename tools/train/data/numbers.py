"""Numbers and times in words."""

import random

_ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS = ["_", "_", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def words(n: int) -> str:
    """`n` in English, from 0 to 999."""
    if n < 20:
        return _ONES[n]
    if n < 100:
        return _TENS[n // 10] + (f"-{_ONES[n % 10]}" if n % 10 else "")
    rest = f" and {words(n % 100)}" if n % 100 else ""
    return f"{_ONES[n // 100]} hundred{rest}"


def clock(rng: random.Random) -> tuple[str, str]:
    """A time of day as HH:MM, and as somebody would say it."""
    hour, minute = rng.randrange(24), rng.choice((0, 0, 0, 15, 30, 30, 45, rng.randrange(60)))
    exact = f"{hour:02}:{minute:02}"
    half = "am" if hour < 12 else "pm"
    twelve = hour % 12 or 12
    day = "in the morning" if hour < 12 else "in the afternoon" if hour < 18 else "in the evening"
    forms = [exact, exact, f"{hour}:{minute:02}", f"{twelve}:{minute:02} {half}", f"{twelve}:{minute:02}{half}"]
    if minute == 0:
        forms += [f"{twelve} {half}", f"{twelve}{half}", f"{words(twelve)} {day}", f"{twelve} o'clock {day}"]
    if minute == 30:
        forms += [f"half past {words(twelve)} {day}"] * 2
    if minute == 15:
        forms.append(f"quarter past {words(twelve)} {day}")
    if minute == 45:
        forms.append(f"quarter to {words((hour + 1) % 12 or 12)} {day}" if hour not in (11, 17, 23) else exact)
    if (hour, minute) == (12, 0):
        forms.append("noon")
    if (hour, minute) == (0, 0):
        forms = [exact, "midnight", "12 am"]
    return exact, rng.choice(forms)
