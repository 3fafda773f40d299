# ruff: noqa: E501  tables of words and templates are easier to read in long lines
"""Kinds of business objects: their fields, and prose that says them. `{name}` stands for a field, `{name:money}` for one in a style.

Each kind belongs to the part `first` or `second`. Faults of the rules that both showed were mended, so figures on them flatter.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Kind:
    name: str
    language: str
    part: str
    fields: dict[str, str]
    """Name → maker, see `instance`; `?` at the end: not required; `|title` gives a title."""
    prose: list[str]
    rows: dict[str, str] = field(default_factory=dict)
    """Fields of the items of `items`, if there are any."""
    row: str = ""
    """How the prose says one item; `{items}` stands for all."""
    joint: str = "; "


KINDS = [
    Kind("purchase contract", "en", "first",
         {"contract_no": "code:PC", "buyer": "company", "seller": "company", "sign_date": "date", "delivery_date": "later:sign_date", "total_amount": "money", "deposit": "money",
          "contact_person": "person", "contact_email": "email"},
         ["This agreement, number {contract_no}, is made on {sign_date:date} between {buyer} (the “Buyer”) and {seller} (the “Seller”). The Seller shall deliver the goods no later than {delivery_date:date}. "
          "The total price is USD {total_amount:money}, of which a deposit of USD {deposit:money} is payable upon signature. Notices go to {contact_person}, {contact_email}.",
          "PURCHASE CONTRACT {contract_no}\nSigned: {sign_date:date}\nBuyer: {buyer}\nSeller: {seller}\nDelivery date: {delivery_date:date}\nTotal: ${total_amount:money}\nDeposit: ${deposit:money}\n"
          "Contact person: {contact_person} ({contact_email})\nThe previous contract of 4 May 2021 over $3,150 is void.",
          "Under contract {contract_no}, {seller} sells and {buyer} buys the equipment described in Annex A. The parties signed on {sign_date:date}; delivery is due by {delivery_date:date}. "
          "In total the buyer pays {total_amount:money} dollars, with {deposit:money} dollars as a deposit. For questions the contact person is {contact_person} and the e-mail {contact_email}."]),
    Kind("invoice mail", "en", "first",
         {"invoice_number": "code:INV", "issue_date": "date", "due_date": "later:issue_date", "vendor": "company", "customer": "company", "subtotal": "money", "tax": "money",
          "total": "money", "bank_account": "code:DE"},
         ["Dear accounts team,\n\nplease find attached invoice {invoice_number}, issued on {issue_date:date} by {vendor} to our customer {customer}. The net amount is €{subtotal:money}, plus VAT of €{tax:money}, "
          "which makes a total of €{total:money}. Payment is due by {due_date:date} to account {bank_account}.\n\nKind regards",
          "Hi,\nInvoice no. {invoice_number} is out. Vendor: {vendor}. Customer: {customer}. Issued {issue_date:date}, due {due_date:date}. Subtotal {subtotal:money} EUR, tax {tax:money} EUR, total {total:money} EUR. "
          "Please use bank account {bank_account} and not the old one, XK998877.",
          "As agreed, {vendor} bills {customer} under invoice number {invoice_number} dated {issue_date:date}. Before tax the services come to {subtotal:money} euros; tax is {tax:money} euros; the total due is {total:money} euros. "
          "Kindly settle by {due_date:date}. Bank account: {bank_account}. Last month's invoice of 1,480.00 euros is already paid."]),
    Kind("meeting note", "en", "first",
         {"topic": "phrase", "date": "date", "location": "city", "chair": "person", "recorder": "person", "next_meeting": "later:date", "budget": "money", "attendees": "people"},
         ["Meeting note. Topic: {topic}. The meeting took place on {date:date} in {location}, chaired by {chair}. Minutes were taken by {recorder}. Attendees: {attendees}. "
          "A budget of {budget:money} dollars was approved. The next meeting is on {next_meeting:date}.",
          "Minutes\nTopic: {topic}\nDate: {date:date}\nLocation: {location}\nChair: {chair}\nRecorder: {recorder}\nAttendees: {attendees}\nBudget: ${budget:money}\nNext meeting: {next_meeting:date}",
          "We met on {date:date} in {location} to talk about {topic}. Present: {attendees}. {chair} chaired the session and {recorder} took the minutes. The budget stays at {budget:money} euros, "
          "not the 9,999 asked for earlier. We will meet again on {next_meeting:date}."]),
    Kind("support chat", "en", "first",
         {"order_id": "code:SO", "customer_name": "person", "phone": "phone", "email": "email", "purchase_date": "date", "refund_amount": "money", "product": "product", "quantity": "small",
          "delivery_address": "address"},
         ["Agent: How can I help?\nCustomer: My order is {order_id}, the name is {customer_name}. I bought {quantity} {product} on {purchase_date:date} and they came broken.\nAgent: Sorry to hear that. May I have your phone?\n"
          "Customer: {phone}, or mail me at {email}.\nAgent: We refund ${refund_amount:money}. Replacement goes to your delivery address, {delivery_address}.",
          "Ticket summary. Customer: {customer_name}. Order {order_id}, purchased on {purchase_date:date}. Product: {product}, quantity {quantity}. Requested refund: {refund_amount:money} dollars. "
          "Phone: {phone}. Email: {email}. Delivery address: {delivery_address}."]),
    Kind("purchase order", "en", "first",
         {"po_number": "code:PO", "supplier": "company", "order_date": "date", "ship_to": "address", "shipping_fee": "money", "items": "rows"},
         ["Purchase order {po_number} to supplier {supplier}, placed on {order_date:date}. We order {items}. Ship to: {ship_to}. Shipping costs {shipping_fee:money} USD.",
          "PO {po_number}\nSupplier: {supplier}\nOrder date: {order_date:date}\nItems: {items}\nShip to: {ship_to}\nShipping fee: ${shipping_fee:money}"],
         rows={"name": "product", "quantity": "small", "unit_price": "money"}, row="{quantity} {name} at ${unit_price:money} each"),
    Kind("采购合同", "zh", "first",
         {"contract_no": "code:HT", "buyer": "company", "seller": "company", "sign_date": "date", "delivery_date": "later:sign_date", "total_amount": "money", "deposit": "money",
          "contact": "person", "phone": "phone"},
         ["本合同（编号{contract_no}）由{buyer}（以下简称“买方”）与{seller}（以下简称“卖方”）于{sign_date:zhdate}签订。卖方应于{delivery_date:zhdate}前交货。合同总金额为{total_amount:money}元，"
          "买方须在签约后支付定金{deposit:money}元。联系人：{contact}，电话：{phone}。",
          "合同编号：{contract_no}\n买方：{buyer}\n卖方：{seller}\n签订日期：{sign_date:zhdate}\n交货日期：{delivery_date:zhdate}\n合同总额：¥{total_amount:money}\n定金：¥{deposit:money}\n联系人：{contact}\n联系电话：{phone}\n"
          "备注：原合同HT-2019-00017已作废。",
          "{buyer}向{seller}采购一批设备，合同号{contract_no}，{sign_date:zhdate}签署，约定{delivery_date:zhdate}交付。总价{total_amount:money}元，其中定金{deposit:money}元。买方联系人{contact}，手机{phone}。去年的合同金额为3,200元，仅供参考。"]),
    Kind("发票邮件", "zh", "first",
         {"invoice_number": "code:FP", "issue_date": "date", "due_date": "later:issue_date", "vendor": "company", "customer": "company", "subtotal": "money", "tax": "money", "total": "money"},
         ["您好，附件为发票{invoice_number}，由{vendor}于{issue_date:zhdate}开具给客户{customer}。不含税金额{subtotal:money}元，税额{tax:money}元，价税合计{total:money}元，请于{due_date:zhdate}前付款。",
          "发票号码：{invoice_number}\n开票日期：{issue_date:zhdate}\n销售方：{vendor}\n客户：{customer}\n小计：{subtotal:money}元\n税额：{tax:money}元\n合计：{total:money}元\n付款截止日：{due_date:zhdate}",
          "各位同事：供应商{vendor}的发票已到，号码{invoice_number}，开票日{issue_date:zhdate}，抬头为客户{customer}。小计{subtotal:money}元，税{tax:money}元，总计{total:money}元，{due_date:zhdate}到期。上月发票1,480元已结清。"]),
    Kind("会议纪要", "zh", "first",
         {"topic": "phrase", "date": "date", "location": "city", "host": "person", "recorder": "person", "next_meeting": "later:date", "budget": "money", "attendees": "people"},
         ["会议主题：{topic}。会议于{date:zhdate}在{location}召开，由{host}主持，{recorder}记录。参会人员：{attendees}。会上批准预算{budget:money}元。下次会议定于{next_meeting:zhdate}。",
          "主题：{topic}\n日期：{date:zhdate}\n地点：{location}\n主持人：{host}\n记录人：{recorder}\n参会人员：{attendees}\n预算：{budget:money}元\n下次会议：{next_meeting:zhdate}"]),
    Kind("采购订单", "zh", "first",
         {"order_no": "code:DD", "supplier": "company", "order_date": "date", "ship_to": "address|收货地址", "freight": "money|运费", "items": "rows"},
         ["订单{order_no}于{order_date:zhdate}向供应商{supplier}下达，订购{items}。收货地址：{ship_to}。运费{freight:money}元。",
          "订单号：{order_no}\n供应商：{supplier}\n下单日期：{order_date:zhdate}\n明细：{items}\n收货地址：{ship_to}\n运费：{freight:money}元"],
         rows={"name": "product", "quantity": "small", "unit_price": "money"}, row="{name}{quantity}件，单价{unit_price:money}元", joint="；"),
    Kind("lease", "en", "second",
         {"lease_id": "code:LS", "landlord": "person", "tenant": "person", "property_address": "address", "start_date": "date", "end_date": "later:start_date", "monthly_rent": "money", "security_deposit": "money",
          "landlord_phone": "phone"},
         ["Lease {lease_id}. {landlord} (landlord) lets the flat at {property_address} to {tenant} (tenant). The tenancy begins on {start_date:date} and ends on {end_date:date}. The monthly rent is £{monthly_rent:money}; "
          "a security deposit of £{security_deposit:money} is held by an agency. The landlord can be reached at {landlord_phone}.",
          "Landlord: {landlord}\nTenant: {tenant}\nProperty: {property_address}\nTerm: from {start_date:date} until {end_date:date}\nRent per month: {monthly_rent:money} GBP\nDeposit: {security_deposit:money} GBP\n"
          "Reference: {lease_id}\nLandlord's telephone: {landlord_phone}",
          "Hello, just to confirm what we agreed for {property_address}: you, {tenant}, will be my tenant from {start_date:date} to {end_date:date}. Rent is {monthly_rent:money} a month, the security deposit {security_deposit:money}. "
          "The file number is {lease_id}. Call me on {landlord_phone} if anything comes up. Best, {landlord}"]),
    Kind("freight note", "en", "second",
         {"tracking_number": "code:TN", "shipper": "company", "consignee": "company", "carrier": "company", "origin": "city", "destination": "city", "dispatch_date": "date", "arrival_date": "later:dispatch_date",
          "weight_kg": "number", "packages": "small"},
         ["Consignment {tracking_number}: {shipper}, the shipper, hands over {packages} packages weighing {weight_kg} kg to the carrier {carrier} in {origin} on {dispatch_date:date}. "
          "They are bound for {destination} and should arrive on {arrival_date:date}. The consignee is {consignee}.",
          "Tracking number {tracking_number}\nShipper {shipper}\nConsignee {consignee}\nCarrier {carrier}\nOrigin {origin}\nDestination {destination}\nDispatched {dispatch_date:date}\nETA {arrival_date:date}\nPackages {packages}\nGross weight {weight_kg} kg",
          "Morning! Your parcel {tracking_number} left {origin} on {dispatch_date:date} with {carrier}. It goes to {destination}, estimated arrival {arrival_date:date}. Sent by {shipper}, recipient {consignee}; {packages} packages, {weight_kg} kg in all."]),
    Kind("insurance claim", "en", "second",
         {"claim_id": "code:CL", "policy_number": "code:PN", "insured_name": "person", "accident_date": "date", "report_date": "later:accident_date", "claim_amount": "money", "deductible": "money",
          "adjuster_email": "email", "currency": "enum:USD,EUR,GBP"},
         ["Claim {claim_id} under policy {policy_number}. The insured, {insured_name}, had an accident on {accident_date:date} and reported it on {report_date:date}. The claim amounts to {claim_amount:money} {currency}, with a deductible of "
          "{deductible:money} {currency}. The adjuster writes from {adjuster_email}.",
          "Policy number: {policy_number}\nClaim: {claim_id}\nInsured: {insured_name}\nDate of accident: {accident_date:date}\nReported: {report_date:date}\nClaimed: {currency} {claim_amount:money}\nDeductible: {currency} {deductible:money}\nAdjuster: {adjuster_email}"]),
    Kind("hotel booking", "en", "second",
         {"booking_reference": "code:BK", "guest_name": "person", "check_in": "date", "check_out": "later:check_in", "room_number": "room", "nights": "small", "room_rate": "money", "total_price": "money", "phone": "phone"},
         ["Your booking {booking_reference} is confirmed, {guest_name}. Check-in is on {check_in:date}, check-out on {check_out:date}, that is {nights} nights in room {room_number}. The rate is {room_rate:money} EUR per night, in total "
          "{total_price:money} EUR. Questions? Call {phone}.",
          "Guest: {guest_name} | Booking: {booking_reference} | Arrival: {check_in:date} | Departure: {check_out:date} | Room: {room_number} | Nights: {nights} | Rate: €{room_rate:money} | Total: €{total_price:money} | Phone: {phone}"]),
    Kind("repair order", "en", "second",
         {"job_number": "code:RJ", "customer": "person", "technician": "person", "received_on": "date", "completed_on": "later:received_on", "labour_cost": "money", "parts": "rows"},
         ["Repair job {job_number} for customer {customer}. Received on {received_on:date}, completed on {completed_on:date} by technician {technician}. Parts used: {parts}. Labour cost: ${labour_cost:money}.",
          "Job {job_number} came in on {received_on:date} from our customer {customer}; technician {technician} finished it on {completed_on:date}. He replaced {parts}. Labour came to {labour_cost:money} dollars."],
         rows={"part": "product", "count": "small", "price": "money"}, row="{count} x {part} ({price:money} USD)", joint=", "),
    Kind("租赁合同", "zh", "second",
         {"lease_id": "code:ZL|合同编号", "landlord": "person|出租人", "tenant": "person|承租人", "address": "address|房屋地址", "start_date": "date|起租日", "end_date": "later:start_date|到期日", "monthly_rent": "money|月租金",
          "deposit": "money|押金", "phone": "phone|出租人电话"},
         ["出租人{landlord}将位于{address}的房屋出租给承租人{tenant}，租期自{start_date:zhdate}起至{end_date:zhdate}止。月租金{monthly_rent:money}元，押金{deposit:money}元。合同编号{lease_id}。出租人电话{phone}。",
          "编号：{lease_id}\n出租方：{landlord}\n承租方：{tenant}\n地址：{address}\n租期：{start_date:zhdate}至{end_date:zhdate}\n每月租金：{monthly_rent:money}元\n押金：{deposit:money}元\n电话：{phone}",
          "您好，{tenant}，房子定下来了：{address}，租金每月{monthly_rent:money}元，押金{deposit:money}元，{start_date:zhdate}开始，{end_date:zhdate}到期。合同号是{lease_id}。有事打我电话{phone}，房东{landlord}。"]),
    Kind("物流通知", "zh", "second",
         {"waybill": "code:YD", "sender": "company", "receiver": "company", "origin": "city", "destination": "city", "ship_date": "date", "arrival_date": "later:ship_date", "weight": "number", "packages": "small", "freight": "money"},
         ["运单{waybill}：寄件人{sender}于{ship_date:zhdate}从{origin}发货，共{packages}件，重{weight}公斤，目的地{destination}，预计{arrival_date:zhdate}到达，收件人为{receiver}，运费{freight:money}元。",
          "运单号：{waybill}\n发货方：{sender}\n收货方：{receiver}\n始发地：{origin}\n目的地：{destination}\n发货日期：{ship_date:zhdate}\n到货日期：{arrival_date:zhdate}\n件数：{packages}件\n重量：{weight}公斤\n运费：{freight:money}元"]),
    Kind("理赔记录", "zh", "second",
         {"claim_id": "code:LP", "policy_number": "code:BD", "insured": "person", "accident_date": "date", "report_date": "later:accident_date", "claim_amount": "money", "deductible": "money", "agent": "person", "agent_phone": "phone"},
         ["客户{insured}（被保险人）的保单号为{policy_number}，{accident_date:zhdate}发生事故，{report_date:zhdate}报案，理赔编号{claim_id}。索赔金额{claim_amount:money}元，免赔额{deductible:money}元。业务员{agent}，电话{agent_phone}。",
          "理赔编号：{claim_id}\n保单号：{policy_number}\n被保险人：{insured}\n事故日期：{accident_date:zhdate}\n报案日期：{report_date:zhdate}\n索赔金额：{claim_amount:money}元\n免赔额：{deductible:money}元\n业务员：{agent}\n业务员电话：{agent_phone}"]),
    Kind("客服对话", "zh", "second",
         {"order_id": "code:SO", "customer_name": "person", "phone": "phone", "email": "email", "purchase_date": "date", "refund_amount": "money", "product": "product", "quantity": "small", "address": "address"},
         ["客服：您好，请问有什么可以帮您？\n客户：我的订单号是{order_id}，姓名{customer_name}，{purchase_date:zhdate}买了{quantity}件{product}，收到时坏了。\n客服：抱歉。请留一下电话。\n客户：{phone}，邮箱{email}。\n"
          "客服：好的，退款{refund_amount:money}元，新货寄到{address}。",
          "工单：客户{customer_name}，订单{order_id}，购买日期{purchase_date:zhdate}，产品：{product}，数量{quantity}件。申请退款{refund_amount:money}元。电话：{phone}。邮箱：{email}。地址：{address}。"]),
    Kind("维修单", "zh", "second",
         {"job_number": "code:WX", "customer": "person", "technician": "person", "received_on": "date", "completed_on": "later:received_on", "labour_cost": "money", "parts": "rows"},
         ["维修单{job_number}，客户：{customer}，{received_on:zhdate}收到，技师{technician}于{completed_on:zhdate}完成。更换配件：{parts}。人工费{labour_cost:money}元。",
          "单号：{job_number}\n客户：{customer}\n维修技师：{technician}\n收到日期：{received_on:zhdate}\n完成日期：{completed_on:zhdate}\n配件：{parts}\n人工费：{labour_cost:money}元"],
         rows={"part": "product", "count": "small", "price": "money"}, row="{part}×{count}，每个{price:money}元", joint="；"),
]  # fmt: skip
