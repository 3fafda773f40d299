"""Prompts whose answers quote, repair or edit what stands in them, each with one example; and free text beside them."""

from __future__ import annotations

SHORT_CODE = '''def area(w, h):
    """Area of a rectangle."""
    return w * h


def perimeter(w, h):
    """Length of its edge."""
    return 2 * (w + h)
'''
CODE = '''def total_price(items, tax_rate):
    """Sum of all items with tax."""
    subtotal = 0.0
    for item in items:
        subtotal += item.price * item.quantity
    tax = subtotal * tax_rate
    return round(subtotal + tax, 2)


def cheapest(items):
    """The item with the lowest price, or None."""
    best = None
    for item in items:
        if best is None or item.price < best.price:
            best = item
    return best


def without_sold_out(items):
    """The items of which there are some left, in their order."""
    return [item for item in items if item.quantity > 0]
'''
CODE_EDIT = f"""# Task: rename `area` to `surface`.
# Before:
{SHORT_CODE}
# After:
{SHORT_CODE.replace("area", "surface")}
# Task: rename `total_price` to `price_with_tax`.
# Before:
{CODE}
# After:
"""

ONE_ORDER = '{"id": 17, "customer": "Niels Bohr", "city": "Copenhagen", "total": 20.5, "paid": false}'
ORDERS = """[{"id": 1001, "customer": "Ada Lovelace", "city": "London", "total": 49.5, "paid": true},
{"id": 1002, "customer": "Alan Turing", "city": "Manchester" "total": 12.25, "paid": false},
{"id": 1003, "customer": "Grace Hopper", "city": "New York", "total": 99.0, "paid": true},
{"id": 1004, "customer": "Edsger Dijkstra", "city": "Nuenen", "total": 7.75, "paid": true},
{"id": 1005, "customer": "Barbara Liskov", "city": "Los Angeles", "total": 310.0, "paid": false]"""
JSON_REPAIR = f"""Broken JSON:
[{ONE_ORDER.replace(', "city"', ' "city"')}]
Repaired JSON:
[{ONE_ORDER}]

Broken JSON:
{ORDERS}
Repaired JSON:
"""

TOWER = (
    "The tower was built in 1702. It has four bells, the largest of which weighs nine tons. Visitors may climb it from "
    "May to September."
)
MILL = (
    "The mill at the lower bridge opened in 1846 with forty looms. Wages were two shillings a day, paid on "
    "Saturdays in the counting house. The owner, Samuel Marsh, built a school in 1851 and paid its teacher "
    "himself. Wages were raised by a sixth after the strike of 1853, which lasted eleven weeks. A fire destroyed "
    "the upper floor in 1868; nobody was hurt, and the looms were replaced within the year. The canal was filled "
    "in 1901, and the mill closed four years later."
)
QUOTES = f"""Text: {TOWER}
Summary with quotes: The text is about a tower. It says when it was built: "The tower was built in 1702." It describes \
its bells: "It has four bells, the largest of which weighs nine tons."

Text: {MILL}
Summary with quotes: The text is about a mill. It says when it opened: \
"""

EXTRACTIVE = {"code_edit": CODE_EDIT, "json_repair": JSON_REPAIR, "summary_with_quotes": QUOTES}


def chat(question: str) -> str:
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


FREE = {
    "story": chat("Write a story about a lighthouse keeper who finds a strange bottle on the beach."),
    "explanation": chat("Explain to a child how a bicycle stays upright."),
    "letter": chat("Write a letter to a neighbour about a tree that has to be cut down."),
}
