"""Words of which made-up business objects consist."""

from __future__ import annotations

STATUS = {"en": ("pending", "in_progress", "completed", "cancelled"), "zh": ("待处理", "处理中", "已完成", "已取消")}
PRIORITY = {"en": ("low", "medium", "high"), "zh": ("低", "中", "高")}
NESTED = {"en": ("sku", "quantity", "unit_price", "name", "city"), "zh": ("货号", "数量", "单价", "姓名", "城市")}
"""Names of nested members: article, quantity, price, name, city."""
MAIL = ("ada.king", "grace_h", "tom-reed", "li.wei", "zhang.san", "info", "sales")
TEXTS = {
    "en": {
        "person": ("Ada King", "Grace O'Neil", "Tom Reed", "Mary-Jane Fox", "José Álvarez", "Li Wei"),
        "company": (
            "Acme Tools, Inc.",
            "Northwind Traders",
            "Smith & Sons Ltd",
            "Blue River Logistics",
            'Café "Luna" GmbH',
        ),
        "city": ("Berlin", "New York", "São Paulo", "Leeds", "Osaka"),
        "text": (
            "deliver to the back door, please",
            "call first: office closed on Friday",
            "VIP (see file 12/7)",
            "ok",
            "none of the 3 boxes was opened",
        ),
    },
    "zh": {
        "person": ("张三", "李小龙", "欧阳娜娜", "王芳", "陈建国", "赵敏"),
        "company": (
            "上海蓝天贸易有限公司",
            "北京华信科技股份有限公司",
            "深圳市永达物流（集团）有限公司",
            "广州明远电子厂",
        ),
        "city": ("上海", "北京", "深圳", "杭州", "成都"),
        "text": ("请送到后门，谢谢", "周五前联系：先打电话", "老客户（见档案12号）", "无异常", "三箱均未开封"),
    },
}
TAGS = {
    "en": ["red", "fragile", "b2b", "export", "night shift", "A/B"],
    "zh": ["急件", "易碎", "老客户", "出口", "夜班", "头痛"],
}
