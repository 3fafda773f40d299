"""A few hundred tokens of different kinds, by which the directions are found in which hidden states are large."""

TEXT = '''\
The invoice arrived on Monday, but nobody had looked at it before the meeting. Anna asked whether the amounts were
right, and whether the customer in Lyon had been told. "They were," said Peter, "and they have already paid half of it."
What is the capital of Australia? The capital of Australia is Canberra; many people think that it is Sydney.

To make bread, mix 500 g of flour with 7 g of yeast, a spoon of salt and about 320 ml of warm water. Knead the dough for
ten minutes, let it rest for an hour, and bake it at 220 degrees until the crust is brown.

1. Read the question twice.
2. Write down what is known, and what is asked.
3. Check the result: 17 * 24 = 408, and 408 / 24 = 17.

def mean(values: list[float]) -> float:
    """The average of at least one value."""
    if not values:
        raise ValueError("no values")
    return sum(values) / len(values)

{"order": {"id": "A-20391", "date": "2024-03-18", "customer": {"name": "Miller & Sons", "city": "Leeds"},
"items": [{"article": "steel pipe", "quantity": 12, "price": 4.75}, {"article": "valve", "quantity": 3, "price": 18.2}],
"total": 111.60, "paid": false, "remarks": null}}

Die Lieferung kommt am Freitag, sofern das Lager alle Teile hat. Le rapport sera envoyé demain matin à tous les membres.
El precio incluye el transporte. 请在星期五之前把报告发给我，谢谢。明天的天气会很好。

SELECT name, SUM(amount) AS total FROM payments WHERE year = 2023 GROUP BY name ORDER BY total DESC LIMIT 10;

Photosynthesis is the process by which green plants use sunlight to turn carbon dioxide and water into sugar and oxygen.
In short, light gives the energy, and the plant stores it. Please summarize the text above in one sentence, and do not
add anything that is not in it. Dear Ms. Weber, thank you for your letter of 3 May. I am
sorry that the parcel was late.
'''
