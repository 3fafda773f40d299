# ruff: noqa: E501  templates are easier to read in long lines
"""Business records that were written before anyone looked at the rules: fields, and prose in several styles that tells them.

`{name}` stands for a field, `{+date}` for a value that only distracts, `{name?is so|is not}` for a truth value's words. The last text of each kind,
and the kinds of which `held` is true, belong to the part that nobody who mends the rules reads the cases of.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Record:
    name: str
    language: str
    fields: dict[str, str]
    """Name → maker; `|title` and `|title|description` may follow."""
    texts: tuple[str, ...]
    held: bool = False
    item: dict[str, str] = field(default_factory=dict)
    """Fields of the items of `lines`."""
    told: str = ""
    """How a text tells one item."""
    joint: str = "; "


ENGLISH = (
    Record(
        "lab report",
        "en",
        {
            "report_id": "code:LR-",
            "patient": "person",
            "physician": "person|Ordering physician",
            "collected_on": "date",
            "reported_on": "after:collected_on",
            "hemoglobin_g_dl": "decimal:9:18",
            "glucose_mg_dl": "whole:60:190",
            "fasting": "flag",
            "laboratory": "company",
        },
        (
            "{laboratory} — laboratory report {report_id}\nPatient: {patient}\nOrdering physician: {physician}\nSample collected: {collected_on}\nReported: {reported_on}\nHemoglobin {hemoglobin_g_dl} g/dl (previous value {+decimal:9:18} g/dl)\n"
            "Glucose {glucose_mg_dl} mg/dl\nFasting: {fasting?yes|no}",
            "Dear Dr. {physician}, please find below the results of your patient {patient}. The blood was collected on {collected_on} and the report {report_id} was issued on {reported_on} by {laboratory}. Hemoglobin was {hemoglobin_g_dl} g/dl and glucose {glucose_mg_dl} mg/dl. "
            "The patient was {fasting?fasting|not fasting}. The next check is planned for {+date}.",
            "{patient} came in for blood work; the sample was collected on {collected_on} ({fasting?fasting|not fasting}) at the request of the physician, {physician}. {laboratory} reported on {reported_on} under {report_id}: glucose of {glucose_mg_dl} mg/dl, hemoglobin of {hemoglobin_g_dl} g/dl. "
            "Last year the glucose was {+whole:60:190} mg/dl.",
        ),
    ),
    Record(
        "payslip",
        "en",
        {
            "employee": "person",
            "employee_id": "code:E",
            "employer": "company",
            "period_start": "date",
            "period_end": "after:period_start",
            "gross_pay": "money",
            "net_pay": "money",
            "tax_withheld": "money",
            "hours_worked": "whole:40:190",
        },
        (
            "PAYSLIP\nEmployer: {employer}\nEmployee: {employee} ({employee_id})\nPay period: {period_start} to {period_end}\nHours worked: {hours_worked}\nGross pay: ${gross_pay}\nTax withheld: ${tax_withheld}\nNet pay: ${net_pay}",
            "Hi {employee}, here are the figures for the period from {period_start} to {period_end}. You worked {hours_worked} hours. Your gross pay was {gross_pay} dollars; {tax_withheld} dollars of tax were withheld, so your net pay is {net_pay} dollars. Your employee ID is {employee_id}. "
            "In the earlier period your gross pay was {+money} dollars. Regards, payroll of {employer}",
            "For the pay period between {period_start} and {period_end}, {employer} paid its employee {employee}, no. {employee_id}, for {hours_worked} hours. Gross pay came to {gross_pay} dollars, tax withheld to {tax_withheld} dollars, and net pay to {net_pay} dollars.",
        ),
    ),
    Record(
        "incident",
        "en",
        {
            "ticket": "code:INC",
            "reported_by": "person",
            "assigned_to": "person",
            "opened": "date|Opened on",
            "resolved": "after:opened|Resolved on",
            "severity": "enum:low,medium,high,critical",
            "service": "service|Affected service",
            "downtime_minutes": "whole:5:400",
            "root_cause": "cause",
        },
        (
            "Incident {ticket}: severity {severity}. Affected service: {service}. Opened on {opened}, resolved on {resolved}. Reported by {reported_by}; assigned to {assigned_to}. Downtime: {downtime_minutes} minutes. Root cause: {root_cause}.",
            "On {opened} {reported_by} reported that {service} was down. The ticket {ticket} was opened with {severity} severity and assigned to {assigned_to}. After {downtime_minutes} minutes of downtime it was back; the ticket was resolved on {resolved}. The root cause was {root_cause}. "
            "A similar ticket, {+code:INC}, had been closed on {+date}.",
            "{ticket} / {severity} / {service}\nreported by {reported_by}\nassigned to {assigned_to}\nopened {opened}\nresolved {resolved}\ndowntime {downtime_minutes} min\nroot cause: {root_cause}\nnote: not related to {+code:INC}",
        ),
    ),
    Record(
        "purchase order",
        "en",
        {
            "po_number": "code:PO-",
            "buyer": "company",
            "supplier": "company",
            "order_date": "date",
            "ship_to": "address",
            "total": "money",
            "payment_terms_days": "whole:7:90",
            "lines": "items",
        },
        (
            "Purchase order {po_number} dated {order_date}\nBuyer: {buyer}\nSupplier: {supplier}\nShip to: {ship_to}\n{lines}\nTotal: EUR {total}\nPayment terms: {payment_terms_days} days",
            "{buyer} orders from {supplier} under number {po_number} of {order_date} the following: {lines}. The goods are to be shipped to {ship_to}. The total is {total} euros, payable within {payment_terms_days} days. Our last order came to {+money} euros.",
            "Hello, as the buyer, {buyer} confirms order {po_number}, placed on {order_date} with the supplier {supplier}. We need {lines}. Total: {total} euros. Payment terms are {payment_terms_days} days net. Please ship to {ship_to}.",
        ),
        item={"article": "product", "quantity": "whole:2:80", "unit_price": "money"},
        told="{quantity} x {article} at {unit_price} euros each",
    ),
    Record(
        "flight change",
        "en",
        {
            "booking_reference": "ref",
            "passenger": "person",
            "flight_number": "code:KX",
            "departure_city": "city",
            "arrival_city": "city",
            "departure_date": "date",
            "old_departure_date": "date",
            "change_fee": "money",
            "seat": "seat",
        },
        (
            "Booking {booking_reference}\nPassenger: {passenger}\nFlight: {flight_number}\nFrom: {departure_city}\nTo: {arrival_city}\nNew departure date: {departure_date} (old departure date: {old_departure_date})\nChange fee: {change_fee} EUR\nSeat: {seat}",
            "Dear {passenger}, your flight {flight_number} from {departure_city} to {arrival_city} has been moved from {old_departure_date} to {departure_date}. Your booking reference remains {booking_reference} and your seat is {seat}. A change fee of {change_fee} euros was charged.",
            "Passenger {passenger} (booking reference {booking_reference}) flies from {departure_city} to {arrival_city} with flight {flight_number}. The departure date is now {departure_date}, instead of {old_departure_date}. Seat {seat}. The change fee amounts to {change_fee} euros.",
        ),
        held=True,
    ),
    Record(
        "maintenance log",
        "en",
        {
            "asset_tag": "code:AT-",
            "technician": "person",
            "supervisor": "person",
            "serviced_on": "date",
            "next_service_due": "after:serviced_on",
            "operating_hours": "whole:100:9000",
            "parts_cost": "money",
            "labor_cost": "money",
            "site": "city",
        },
        (
            "Maintenance log, site {site}. Asset tag {asset_tag}. Technician: {technician}. Supervisor: {supervisor}. Serviced on: {serviced_on}. Next service due: {next_service_due}. Operating hours: {operating_hours}. Parts cost: ${parts_cost}. Labor cost: ${labor_cost}.",
            "{technician} serviced the compressor with the tag {asset_tag} in {site} on {serviced_on}, at {operating_hours} operating hours. Parts cost {parts_cost} dollars and labor {labor_cost} dollars. The next service is due on {next_service_due}. Checked by the supervisor, {supervisor}. The previous service was on {+date}.",
            "Serviced {asset_tag} on {serviced_on}. Site: {site}. Hours: {operating_hours}. The parts came to {parts_cost} dollars, labor to {labor_cost} dollars. Next service due {next_service_due}. Technician {technician}, supervisor {supervisor}.",
        ),
        held=True,
    ),
    Record(
        "enrolment",
        "en",
        {
            "student_name": "person",
            "guardian_name": "person",
            "date_of_birth": "date",
            "school": "school",
            "grade": "whole:1:12",
            "enrolment_date": "date",
            "annual_fee": "money",
            "guardian_phone": "phone",
            "guardian_email": "email",
            "needs_transport": "flag",
        },
        (
            "Student name: {student_name}\nDate of birth: {date_of_birth}\nSchool: {school}\nGrade: {grade}\nEnrolment date: {enrolment_date}\nGuardian name: {guardian_name}\nGuardian phone: {guardian_phone}\nGuardian email: {guardian_email}\nAnnual fee: {annual_fee}\nNeeds transport: {needs_transport?yes|no}",
            "We confirm that {student_name}, born on {date_of_birth}, has been enrolled at {school} in grade {grade} with effect from {enrolment_date}. The guardian is {guardian_name} (phone {guardian_phone}, e-mail {guardian_email}). The annual fee is {annual_fee} euros. Transport is {needs_transport?needed|not needed}.",
            "Minutes of enrolment: student {student_name}; date of birth {date_of_birth}; grade {grade}; school {school}; enrolled {enrolment_date}; guardian {guardian_name}, tel. {guardian_phone}, {guardian_email}; annual fee {annual_fee} euros (last year {+money} euros); transport {needs_transport?needed|not needed}.",
        ),
        held=True,
    ),
    Record(
        "shipping notice",
        "en",
        {
            "tracking_number": "code:TRK",
            "carrier": "company",
            "shipper": "company",
            "consignee": "company",
            "pickup_date": "date",
            "expected_delivery": "after:pickup_date",
            "weight_kg": "decimal:20:900",
            "packages": "whole:2:60",
            "insured_value": "money",
            "fragile": "flag",
        },
        (
            "Shipping notice\nTracking number: {tracking_number}\nCarrier: {carrier}\nShipper: {shipper}\nConsignee: {consignee}\nPickup date: {pickup_date}\nExpected delivery: {expected_delivery}\nPackages: {packages}\nWeight: {weight_kg} kg\nInsured value: {insured_value} EUR\nFragile: {fragile?yes|no}",
            "{carrier} picked up {packages} packages from {shipper} on {pickup_date}. They weigh {weight_kg} kg and are insured for {insured_value} euros. Delivery to the consignee, {consignee}, is expected on {expected_delivery}. Track them under {tracking_number}. The goods are {fragile?fragile|not fragile}.",
            "To whom it may concern: the shipper {shipper} has handed {packages} packages with a weight of {weight_kg} kg to the carrier {carrier}; pickup was on {pickup_date}. The consignee is {consignee}. Expected delivery is {expected_delivery}; the tracking number is {tracking_number}. The insured value is {insured_value} euros. Shipment {+code:TRK} of {+date} is not affected. "
            "The contents are {fragile?fragile|not fragile}.",
        ),
        held=True,
    ),
)

CHINESE = (
    Record(
        "检验报告",
        "zh",
        {
            "报告编号": "code:JY",
            "送检单位": "company",
            "检验员": "person",
            "审核人": "person",
            "送检日期": "date",
            "报告日期": "after:送检日期",
            "样品数量": "whole:2:60",
            "检验费": "money",
            "是否合格": "flag",
        },
        (
            "检验报告\n报告编号：{报告编号}\n送检单位：{送检单位}\n样品数量：{样品数量}件\n送检日期：{送检日期}\n报告日期：{报告日期}\n检验费：{检验费}元\n检验员：{检验员}\n审核人：{审核人}\n是否合格：{是否合格?是|否}",
            "{送检单位}于{送检日期}送检样品{样品数量}件，由检验员{检验员}检验、审核人{审核人}审核，报告日期为{报告日期}，报告编号为{报告编号}。检验费{检验费}元。样品{是否合格?合格|不合格}。上一次的检验费为{+money}元。",
            "您好：贵单位（{送检单位}）{送检日期}送来的{样品数量}件样品已检验完毕，{是否合格?合格|不合格}。报告编号{报告编号}，报告日期{报告日期}。检验费共{检验费}元。检验员是{检验员}，审核人是{审核人}。",
        ),
    ),
    Record(
        "工资条",
        "zh",
        {
            "employee_name": "person|员工姓名",
            "employee_no": "code:YG|工号",
            "department": "department|部门",
            "pay_date": "date|发放日期",
            "gross_salary": "money|应发工资",
            "social_insurance": "money|社保扣款",
            "net_salary": "money|实发工资",
            "work_days": "whole:10:23|出勤天数",
        },
        (
            "员工姓名：{employee_name}；工号：{employee_no}；部门：{department}；出勤天数：{work_days}天；应发工资：{gross_salary}元；社保扣款：{social_insurance}元；实发工资：{net_salary}元；发放日期：{pay_date}。",
            "{department}的{employee_name}（工号{employee_no}）本月出勤{work_days}天，应发工资{gross_salary}元，社保扣款{social_insurance}元，实发工资{net_salary}元，已于{pay_date}发放。上月实发{+money}元。",
            "{employee_name}您好，您的工号是{employee_no}，所在部门为{department}。本期工资于{pay_date}发放：应发{gross_salary}元，扣除社保{social_insurance}元，实发{net_salary}元，出勤{work_days}天。",
        ),
    ),
    Record(
        "故障工单",
        "zh",
        {
            "ticket_no": "code:GD|工单编号",
            "reporter": "person|报障人",
            "handler": "person|处理人",
            "phone": "phone|联系电话",
            "opened_on": "date|报障日期",
            "closed_on": "after:opened_on|关闭日期",
            "device": "product|故障设备",
            "location": "address|地点",
            "status": "enum:处理中,已关闭,待派单|状态",
            "repair_fee": "money|维修费用",
        },
        (
            "工单编号：{ticket_no}\n报障人：{reporter}（联系电话：{phone}）\n故障设备：{device}\n地点：{location}\n报障日期：{opened_on}\n处理人：{handler}\n关闭日期：{closed_on}\n维修费用：{repair_fee}元\n状态：{status}",
            "{opened_on}，{reporter}来电报障，称{location}的{device}无法使用，联系电话{phone}。工单编号{ticket_no}，由{handler}处理，维修费用{repair_fee}元，{closed_on}关闭，状态为{status}。此前的工单{+code:GD}与此无关。",
            "报障人：{reporter}，电话：{phone}。设备：{device}，地点在{location}。工单{ticket_no}于{opened_on}登记，处理人为{handler}。该单于{closed_on}关闭，维修费{repair_fee}元。目前状态：{status}。",
        ),
    ),
    Record(
        "采购单",
        "zh",
        {
            "订单号": "code:CG",
            "采购方": "company",
            "供货方": "company",
            "下单日期": "date",
            "交货日期": "after:下单日期",
            "收货地址": "address",
            "合计金额": "money",
            "lines": "items",
        },
        (
            "订单号：{订单号}\n采购方：{采购方}\n供货方：{供货方}\n下单日期：{下单日期}\n交货日期：{交货日期}\n收货地址：{收货地址}\n明细：{lines}\n合计金额：{合计金额}元",
            "{采购方}于{下单日期}向{供货方}订购：{lines}。订单号为{订单号}，合计金额{合计金额}元，须在{交货日期}前送至{收货地址}。上次订单金额为{+money}元。",
            "兹有采购方{采购方}与供货方{供货方}约定如下：{lines}；合计{合计金额}元。交货日期为{交货日期}，收货地址为{收货地址}。本订单号{订单号}，{下单日期}下单。",
        ),
        item={"品名": "product", "数量": "whole:2:80", "单价": "money"},
        told="{品名}{数量}台，单价{单价}元",
        joint="；",
    ),
    Record(
        "酒店预订",
        "zh",
        {
            "booking_no": "code:HB|预订号",
            "guest": "person|客人姓名",
            "hotel": "hotel|酒店",
            "check_in": "date|入住日期",
            "check_out": "after:check_in|退房日期",
            "rooms": "whole:2:9|房间数",
            "room_rate": "money|每晚房价",
            "prepaid": "money|预付款",
            "guest_phone": "phone|手机号",
            "breakfast": "flag|含早餐",
        },
        (
            "预订号：{booking_no}，酒店：{hotel}，客人姓名：{guest}，手机号：{guest_phone}，入住日期：{check_in}，退房日期：{check_out}，房间数：{rooms}间，每晚房价：{room_rate}元，预付款：{prepaid}元，含早餐：{breakfast?是|否}。",
            "尊敬的{guest}先生/女士：您预订的{hotel}已确认，预订号{booking_no}。您将于{check_in}入住，{check_out}退房，共{rooms}间房，每晚{room_rate}元，{breakfast?含早餐|不含早餐}。预付款{prepaid}元已收到。我们会拨打手机{guest_phone}与您联系。",
            "{guest}（手机{guest_phone}）订了{hotel}的{rooms}间房，{check_in}入住、{check_out}退房。房价每晚{room_rate}元，已付预付款{prepaid}元，{breakfast?含早餐|不含早餐}。预订号是{booking_no}，原预订号{+code:HB}已取消。",
        ),
        held=True,
    ),
    Record(
        "保险理赔",
        "zh",
        {
            "赔案号": "code:PA",
            "保单号": "code:BD",
            "被保险人": "person",
            "查勘员": "person",
            "出险日期": "date",
            "报案日期": "after:出险日期",
            "出险地点": "address",
            "索赔金额": "money",
            "核定金额": "money",
            "免赔额": "money",
        },
        (
            "赔案号：{赔案号}\n保单号：{保单号}\n被保险人：{被保险人}\n出险日期：{出险日期}\n报案日期：{报案日期}\n出险地点：{出险地点}\n查勘员：{查勘员}\n索赔金额：{索赔金额}元\n免赔额：{免赔额}元\n核定金额：{核定金额}元",
            "被保险人{被保险人}（保单号{保单号}）于{出险日期}在{出险地点}出险，{报案日期}报案，赔案号{赔案号}。查勘员{查勘员}到现场查勘。索赔金额{索赔金额}元，扣除免赔额{免赔额}元，核定金额为{核定金额}元。",
            "赔案{赔案号}：保单{保单号}，{被保险人}索赔{索赔金额}元，免赔额为{免赔额}元，核定{核定金额}元。出险日期是{出险日期}，报案日期是{报案日期}，出险地点为{出险地点}。查勘由{查勘员}负责。去年的核定金额是{+money}元。",
        ),
        held=True,
    ),
    Record(
        "设备租用",
        "zh",
        {
            "contract_no": "code:ZY|合同编号",
            "lessor": "company|出租方",
            "lessee": "company|承租方",
            "start_date": "date|起租日期",
            "end_date": "after:start_date|到期日期",
            "monthly_rent": "money|月租金",
            "deposit": "money|押金",
            "contact": "person|联系人",
            "contact_email": "email|联系邮箱",
        },
        (
            "合同编号：{contract_no}\n出租方（甲方）：{lessor}\n承租方（乙方）：{lessee}\n起租日期：{start_date}\n到期日期：{end_date}\n月租金：人民币{monthly_rent}元\n押金：人民币{deposit}元\n联系人：{contact}\n联系邮箱：{contact_email}",
            "{lessor}（出租方）与{lessee}（承租方）签订合同{contract_no}，租期自{start_date}起至{end_date}止，月租金{monthly_rent}元，押金{deposit}元。联系人为{contact}，邮箱{contact_email}。原合同{+code:ZY}同时作废。",
            "根据合同{contract_no}，{lessee}向{lessor}租用设备，每月租金{monthly_rent}元，另付押金{deposit}元。租期从{start_date}到{end_date}。如有问题请联系{contact}（{contact_email}）。",
        ),
        held=True,
    ),
    Record(
        "送货通知",
        "zh",
        {
            "delivery_no": "code:SH",
            "sender": "company",
            "receiver": "company",
            "driver": "person",
            "driver_phone": "phone",
            "ship_date": "date",
            "arrival_date": "after:ship_date",
            "boxes": "whole:5:90",
            "weight_kg": "decimal:20:900",
            "freight": "money",
        },
        (
            "送货单号：{delivery_no}\n发货方：{sender}\n收货方：{receiver}\n司机：{driver}\n司机电话：{driver_phone}\n发货日期：{ship_date}\n到货日期：{arrival_date}\n箱数：{boxes}箱\n重量：{weight_kg}公斤\n运费：{freight}元",
            "{sender}于{ship_date}向{receiver}发出{boxes}箱货物，重{weight_kg}公斤，送货单号{delivery_no}，预计{arrival_date}到货。司机{driver}，电话{driver_phone}。运费{freight}元。",
            "通知：送货单{delivery_no}，发货方为{sender}，收货方为{receiver}。共{boxes}箱，{weight_kg}千克，运费{freight}元。{ship_date}发货，{arrival_date}到货。司机是{driver}（{driver_phone}）。上一车的运费是{+money}元。",
        ),
        held=True,
    ),
)
RECORDS = ENGLISH + CHINESE
