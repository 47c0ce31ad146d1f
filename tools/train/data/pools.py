"""Words that requests are about but that are no tools: they must be copied."""


def _list(text: str) -> tuple[str, ...]:
    return tuple(w.strip() for w in text.replace("\n", " ").split(",") if w.strip())


PLACES = _list("""
kitchen, living room, bedroom, bathroom, hallway, office, garage, basement, attic, garden, balcony,
nursery, dining room, guest room, study, laundry room, pantry, porch, terrace, workshop, shed,
greenhouse, cellar, library, entrance, lobby, corridor, staircase, kids room, playroom, conservatory,
upstairs, downstairs, patio, driveway, carport, barn, stable, server room, meeting room, reception,
warehouse, loading dock, lab, classroom, gym, sauna, sun room, utility room, boiler room, storage room,
master bedroom, en suite, cloakroom, north wing, south wing, first floor, second floor, roof, courtyard,
canteen, break room, clean room, cold store, dock 3, zone 1, zone 2, bay 4, room 12, hall b, wine cellar,
music room, den, mud room, summer house, back yard, front yard, pool house, tool shed, bike room, alcove,
conference room, archive, studio, gallery, ward 7, foyer, veranda, landing, tack room, chicken coop
""")

PEOPLE = _list("""
anna, tom, maria, john, sarah, ahmed, mei, olga, peter, lucy, david, nina, carlos, fatima, jonas, emma,
leo, grandma, mom, dad, bob, alice, the team, my boss, the neighbours, kenji, priya, lars, ines, viktor,
helga, marco, chloe, samir, yuki, elena, frank, rosa, dmitri, aisha, hugo, clara, ravi, ingrid, pablo,
zoe, milan, greta, oscar, leila, the landlord, the office, the plumber, doctor weber, mr smith, mrs jones,
uncle joe, aunt vera, support, reception, the night shift, karl, sofia, tariq, bruno, wendy, felix, maya
""")

TOWNS = _list("""
berlin, paris, oslo, madrid, rome, london, vienna, prague, lisbon, dublin, tokyo, boston, chicago, lyon,
hamburg, porto, krakow, bergen, ghent, geneva, turin, seville, malmo, tampere, riga, austin, denver,
seattle, toronto, osaka, seoul, hanoi, lima, bogota, nairobi, cairo, tunis, izmir, athens, split, graz,
basel, utrecht, aarhus, cork, leeds, york, bath, nantes, nice, bilbao, cadiz, padua, trieste, brno
""")

ITEMS = _list("""
milk, eggs, bread, butter, apples, coffee, rice, olive oil, batteries, soap, dog food, tomatoes, screws,
printer paper, onions, cheese, pasta, flour, sugar, bananas, light bulbs, toothpaste, shampoo, tea,
carrots, potatoes, yoghurt, honey, cat litter, sponges, bin bags, sandpaper, wood glue, m4 bolts, solder,
resistors, chicken, salmon, lemons, garlic, basil, cereal, jam, salt, pepper, napkins, candles, tape,
envelopes, stamps, nails, paint, seeds, potting soil, fertilizer, fuses, aa batteries, chocolate, oats,
oranges, spinach, peas, lentils, mustard, vinegar, detergent, firewood, coat hangers, zip ties
""")

TASKS = _list("""
call the dentist, water the plants, take out the trash, pay the rent, feed the cat, walk the dog,
buy flowers, send the invoice, check the oven, pick up the kids, renew the passport, change the filter,
defrost the chicken, book the flights, return the library books, clean the gutters, charge the drill,
back up the laptop, order printer ink, take the medicine, move the car, empty the dishwasher,
reply to the landlord, test the smoke detector, prune the roses, sign the contract, fix the fence,
wash the car, iron the shirts, submit the report, descale the kettle, mow the lawn, oil the hinges,
turn the compost, measure the window, cancel the subscription, bring the ladder, visit the bank,
rotate the tyres, sharpen the knives, label the boxes, top up the coolant, replace the wiper blades
""")

MESSAGES = _list("""
dinner is ready, i will be late, the package has arrived, please call me back, running ten minutes late,
the door is open, see you at eight, happy birthday, the meeting is cancelled, don't forget the keys,
all systems normal, water leak detected, battery low, i am on my way, thanks for your help,
the pump has stopped, we are out of coffee, back in five minutes, the guests are here, good night,
please check the boiler, train is delayed, lunch at noon, the backup has finished, window left open,
the laundry is done, power is back, moving to plan b, bring an umbrella, the cake is in the oven,
meet me at the station, the printer is out of paper, shift starts at six, someone is at the gate,
tank is almost empty, motion in the yard, school is closed tomorrow, new firmware installed
""")

SONGS = _list("""
blue in green, clair de lune, take five, bohemian rhapsody, here comes the sun, summertime, imagine,
smooth jazz, classical music, rain sounds, the beatles, miles davis, morning playlist, rock classics,
white noise, daft punk, nina simone, the news, jazz radio, holiday songs, workout mix, bach, abba,
lofi beats, radio swiss jazz, whale song, the planets, dancing queen, yesterday, ambient forest,
piano for sleep, country roads, hotel california, four seasons, moonlight sonata, kids songs
""")

COLORS = _list("""
red, green, blue, white, yellow, orange, purple, pink, cyan, magenta, warm white, cool white, amber,
turquoise, lime, violet, teal, gold, lavender, coral, indigo, crimson, olive, salmon
""")

DAYS = _list("monday, tuesday, wednesday, thursday, friday, saturday, sunday, today, tomorrow, weekdays")

EVENTS = _list("""
dentist appointment, team meeting, birthday party, yoga class, lunch with anna, parents evening,
board meeting, car service, concert, haircut, job interview, football practice, wine tasting, sprint review,
piano lesson, house viewing, choir, stand-up, bbq, flight to oslo, garden club, blood test, vet visit
""")

MODES = {
    "climate": _list("auto, heat, cool, dry, fan, eco, off, away, sleep, comfort, boost, frost, holiday"),
    "light": _list("reading, relax, party, movie, night, focus, sunrise, candle, energize, dim, full, romance"),
    "wash": _list("cotton, delicate, wool, quick, eco, intensive, rinse, spin, synthetics, steam, sports"),
    "clean": _list("quiet, standard, turbo, spot, edge, mop, deep, silent, max, zigzag, daily"),
    "house": _list("home, away, night, vacation, guest, party, work, cleaning, armed, disarmed, quiet"),
    "speed": _list("low, medium, high, off, silent, max, breeze, turbo, slow, fast, normal, night"),
    "print": _list("draft, normal, fine, ultra, fast, strong, vase, photo, mono, duplex"),
    "drive": _list("manual, auto, follow, patrol, dock, hold, return, explore, park, sport, normal, eco"),
    "cook": _list("bake, grill, roast, defrost, steam, warm, fan, pizza, proof, espresso, latte, mild, strong"),
    "water": _list("drip, spray, mist, flood, pulse, soak, winter, summer, vacation, test, rinse, drain"),
}

DIRECTIONS = _list("forward, backward, left, right, up, down, north, south, east, west, clockwise")

SYSTEMS = _list("""
You look after a small house., You control a workshop., You are a home assistant., Be brief.,
You run on a gateway in a greenhouse., Use the tools; answer in one sentence., It is Monday 14:05.,
You are the assistant of a farm., Answer in one or two sentences., You help the night shift.,
You are the voice of an office building., The user's name is Kim., Today is 2026-03-14.
""")
