# ruff: noqa: E501  tables of words and phrases are easier to read in long lines
"""What values are to a matter: roles by the type of their value, with names of fields and phrases that say them.

One role a line: type | names of fields | phrases | Chinese names | Chinese phrases. `{}` is the value; phrases are clauses.
Roles of the kinds that adapters are evaluated on (`kinds`, part `second`) are left out on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Role:
    sort: str
    names: tuple[str, ...]
    phrases: tuple[str, ...]
    chinese_names: tuple[str, ...]
    chinese_phrases: tuple[str, ...]


_TABLE = """
company | buyer, purchaser, buying_company | the buyer is {}; {} (the “Buyer”); {} buys the goods; sold to {}; {} acts as purchaser; {} has agreed to purchase | 买方, 购买方, 采购单位 | 买方为{}; {}（以下简称“买方”）; 由{}购买; {}作为采购方
company | seller, vendor, selling_party | the seller is {}; {} (the “Seller”); {} sells the goods; bought from {}; {} acts as vendor; goods come from {} | 卖方, 销售方, 出卖人 | 卖方为{}; {}（以下称“卖方”）; 由{}出售; 销售方是{}; 向{}购买
company | supplier, provider, supplied_by | supplier: {}; supplied by {}; {} provides the material; our supplier {} confirms; {} will supply | 供应商, 供货单位 | 供应商为{}; 由{}供货; 供货方{}; {}负责供应
company | manufacturer, maker, produced_by | made by {}; the manufacturer, {}, gives a guarantee; {} produced the device; manufacturer is {} | 制造商, 生产厂家 | 由{}生产; 制造商为{}; 生产厂家是{}; {}制造
company | bank, lender, lending_institution | {} lends the money; the lender is {}; financed by {}; {} grants the loan; bank: {} | 贷款机构, 贷款人, 银行 | 由{}发放贷款; 贷款人为{}; {}提供资金; 出借方{}
company | employer, company_name, works_for | employer: {}; works for {}; hired by {}; {} employs; on behalf of the employer, {} | 用人单位, 雇主, 公司名称 | 用人单位为{}; 就职于{}; 由{}聘用; 甲方（用人单位）：{}
company | contractor, main_contractor | the contractor {} carries out the work; work is done by {}; main contractor is {}; {} was awarded the contract | 承包商, 施工单位 | 承包单位为{}; 由{}承建; 施工单位：{}; {}中标
company | subcontractor | {} works as subcontractor; part of it is passed on to {}; subcontracted to {} | 分包商, 分包单位 | 分包给{}; 分包单位为{}; {}负责分包部分
company | client, client_name, principal, customer | the client is {}; on behalf of our client {}; ordered by {}; commissioned by {}; client: {} | 委托方, 客户, 客户名称 | 委托方为{}; 客户是{}; 受{}委托; {}（委托人）
company | auditor, audit_firm | audited by {}; {} examined the accounts; the auditor is {} | 审计机构, 审计单位 | 由{}审计; 审计机构为{}; {}出具审计报告
company | licensor, owner_of_rights | licensor: {}; {} grants the licence; rights belong to {} | 许可方, 授权方 | 许可方为{}; {}授予许可; 权利归{}所有
company | licensee, licence_holder | licensee: {}; the licence is granted to {}; {} may use the software | 被许可方, 被授权方 | 被许可方为{}; 授权给{}使用; {}获得使用权
company | sponsor, sponsored_by | sponsored by {}; {} pays for the event; our sponsor {} | 赞助商, 赞助单位 | 由{}赞助; 赞助商为{}; {}提供赞助
company | organizer, organiser, host_organisation | organised by {}; {} hosts the event; the organiser is {} | 主办方, 主办单位 | 由{}主办; 主办单位为{}; {}举办
company | distributor, dealer | distributed by {}; {} is the dealer; sold through {} | 经销商, 代理商 | 经销商为{}; 由{}代理; 通过{}销售
company | previous_supplier, former_vendor | until now {} delivered; the former supplier was {}; we used to buy from {} | 原供应商, 前供应商 | 原供应商为{}; 此前由{}供货; 以前的供货方是{}
company | debtor, payer, invoice_to, bill_to | to be paid by {}; invoice goes to {}; {} owes the sum; bill to {} | 付款方, 付款单位, 债务人 | 付款方为{}; 由{}付款; 发票开给{}; {}应支付
company | creditor, payee, beneficiary | payable to {}; the payee is {}; money goes to {}; in favour of {} | 收款方, 收款单位, 债权人 | 收款方为{}; 款项付给{}; 收款单位：{}
person | patient, patient_name | patient: {}; the patient, {}, was seen; {} came in with pain; we examined {} | 患者, 患者姓名, 病人 | 患者{}; 病人{}前来就诊; 患者姓名：{}; 为{}做了检查
person | doctor, physician, attending_doctor | seen by Dr {}; the doctor, {}, advised rest; attending physician {}; treated by {} | 医生, 主治医师 | 主治医师{}; 由{}医生诊治; 医生：{}; 接诊医生为{}
person | nurse, nurse_on_duty | nurse on duty {}; assisted by nurse {}; {} looked after the ward | 护士, 值班护士 | 值班护士{}; 护士为{}; 由护士{}护理
person | teacher, instructor, lecturer | taught by {}; the teacher is {}; {} gives the course; instructor: {} | 教师, 授课老师, 讲师 | 授课老师{}; 由{}讲授; 任课教师：{}
person | student, student_name, pupil | student: {}; {} is enrolled; the student {} passed; handed in by {} | 学生, 学生姓名, 学员 | 学生{}; 学员姓名：{}; {}同学; 由学生{}提交
person | manager, line_manager, supervisor, reports_to | reports to {}; the manager is {}; supervised by {}; line manager {} | 主管, 直属上级, 部门经理 | 直属上级为{}; 主管{}; 由{}管理; 部门经理：{}
person | employee, employee_name, staff_member | employee: {}; {} joins the team; the employee {}; we hire {} | 员工, 员工姓名, 职工 | 员工{}; 姓名：{}; 录用{}; 新员工为{}
person | predecessor, replaces | {} leaves the post; the successor of {}; taking over from {} | 前任, 离任人 | 接替{}; 前任为{}; {}离任
person | applicant, candidate, applicant_name | applicant: {}; {} applies; the candidate, {}; application of {} | 申请人, 候选人, 应聘者 | 申请人{}; 应聘者为{}; {}提出申请; 候选人：{}
person | interviewer, interviewed_by | interviewed by {}; {} leads the interview; interviewer: {} | 面试官, 面试人 | 面试官为{}; 由{}面试; 面试人：{}
person | referee, reference_person | reference: {}; recommended by {}; {} acts as referee | 推荐人, 证明人 | 推荐人为{}; 由{}推荐; 证明人：{}
person | author, written_by, writer | written by {}; the author is {}; {} wrote the report; author: {} | 作者, 撰写人, 编写人 | 作者{}; 由{}撰写; 撰写人：{}; 执笔人为{}
person | reviewer, reviewed_by, checker | reviewed by {}; {} checked it; reviewer: {}; proofread by {} | 审核人, 审阅人, 复核人 | 审核人{}; 由{}审核; 复核人为{}; 审阅：{}
person | editor, edited_by | edited by {}; editor: {}; {} edited the volume | 编辑, 责任编辑 | 责任编辑{}; 由{}编辑; 编辑：{}
person | approver, approved_by, authorised_by | approved by {}; {} gave approval; authorised by {}; signed off by {} | 批准人, 审批人 | 由{}批准; 审批人为{}; {}审批通过; 批准：{}
person | requester, requested_by, raised_by | requested by {}; {} raised the request; at the request of {}; requester: {} | 申请人员, 发起人, 提出人 | 由{}提出; 发起人为{}; {}提交了请求; 提出人：{}
person | assignee, assigned_to, owner, responsible | assigned to {}; {} takes care of it; {} is responsible; owner: {} | 负责人, 处理人, 责任人 | 由{}负责; 指派给{}; 负责人：{}; 处理人为{}
person | witness, witness_name | witnessed by {}; {} saw it happen; witness: {} | 证人, 见证人 | 见证人{}; 由{}见证; 证人为{}
person | driver, driver_name | driven by {}; the driver was {}; {} was at the wheel; driver: {} | 司机, 驾驶员 | 司机{}; 由{}驾驶; 驾驶员为{}
person | passenger, traveller, passenger_name | passenger: {}; {} travels; ticket for {}; the traveller is {} | 乘客, 旅客姓名, 出行人 | 乘客{}; 旅客为{}; {}出行; 出行人：{}
person | chair, chairperson, chaired_by, moderator | chaired by {}; {} was in the chair; {} opened the meeting; moderator {} | 主持人, 会议主席 | 由{}主持; 主持人{}; 会议主席为{}
person | secretary, minutes_by, note_taker, recorder | minutes by {}; {} kept the record; notes: {}; secretary {} | 记录人, 秘书 | 由{}记录; 记录人：{}; 会议秘书为{}
person | signatory, signed_by | signed by {}; signatory: {}; bears the signature of {} | 签字人, 签署人 | 由{}签字; 签署人为{}; 签字人：{}
person | borrower, debtor_name | borrower: {}; {} borrows; lent to {}; the loan is taken out by {} | 借款人 | 借款人{}; 由{}借款; 借给{}
person | guarantor, surety | guarantor: {}; {} stands surety; guaranteed by {} | 担保人, 保证人 | 担保人{}; 由{}担保; 保证人为{}
person | emergency_contact, next_of_kin | in an emergency call {}; next of kin is {}; emergency contact: {} | 紧急联系人 | 紧急联系人{}; 紧急情况请联系{}
person | contact, contact_person, contact_name | contact: {}; please ask for {}; your contact is {}; questions go to {} | 联系人, 联系人姓名 | 联系人：{}; 请联系{}; 联系人为{}
person | sales_representative, sales_rep, account_manager | your sales representative {}; looked after by {}; account manager: {} | 销售代表, 客户经理 | 销售代表{}; 客户经理为{}; 由{}跟进
person | inspector, inspected_by | inspected by {}; the inspector, {}, found no defects; inspector: {} | 检查员, 检验员 | 由{}检验; 检查员为{}; 检验员：{}
person | donor, donated_by | donated by {}; {} gave the money; donor: {} | 捐赠人 | 捐赠人{}; 由{}捐赠
person | lawyer, attorney, legal_counsel | represented by {}; lawyer: {}; legal counsel is {} | 律师, 代理律师 | 代理律师{}; 由{}律师代理; 律师为{}
person | plaintiff, claimant_name | plaintiff: {}; {} sues; suit brought by {} | 原告 | 原告{}; 由{}起诉; 原告为{}
person | defendant, respondent | defendant: {}; against {}; {} is sued | 被告 | 被告{}; 被起诉人为{}; 被告为{}
person | project_manager, project_lead, lead | led by {}; project manager {}; {} heads the project | 项目经理, 项目负责人 | 项目经理{}; 由{}牵头; 项目负责人为{}
date | sign_date, signed_on, date_of_signature | signed on {}; signature took place on {}; dated {}; the parties signed on {} | 签订日期, 签署日期 | 于{}签订; 签署日期为{}; {}签约
date | effective_date, valid_from, in_force_since | effective from {}; in force as of {}; takes effect on {}; valid from {} | 生效日期, 起效日 | 自{}起生效; 生效日期：{}; {}起执行
date | expiry_date, expires_on, valid_until | expires on {}; valid until {}; runs out on {}; expiry: {} | 失效日期, 有效期至, 到期日期 | 有效期至{}; {}失效; 到期日期为{}
date | delivery_date, deliver_by, delivered_on | delivery on {}; to be delivered by {}; goods arrive on {}; delivery date {}; expected on {} | 交货日期, 交付日期 | {}交货; 交付日期为{}; 应于{}前交货; 预计{}到货
date | invoice_date, issued_on, date_of_issue | invoice dated {}; issued on {}; invoice date {}; date of issue: {} | 开票日期, 开具日期 | 开票日期{}; 于{}开具; {}开票
date | due_date, payment_due, pay_by | payment due on {}; payable by {}; to be paid no later than {}; due date: {} | 付款截止日期, 付款日期, 到期付款日 | 请于{}前付款; 付款截止日{}; 应在{}之前支付
date | paid_on, payment_date | paid on {}; the money arrived on {}; payment received {} | 实际付款日期, 到账日期 | {}付款; 于{}到账; 到账日期为{}
date | order_date, ordered_on | ordered on {}; order placed {}; order of {}; order date: {} | 下单日期, 订购日期 | {}下单; 订购日期为{}; 于{}订购
date | birth_date, date_of_birth, born_on | born on {}; date of birth: {}; birthday {} | 出生日期, 生日 | {}出生; 出生日期：{}; 生于{}
date | hire_date, start_of_employment, joined_on | joins on {}; employed since {}; first working day {}; hired on {} | 入职日期, 到岗日期 | {}入职; 入职日期为{}; 于{}到岗
date | termination_date, last_working_day, left_on | leaves on {}; last working day is {}; employment ends {} | 离职日期, 最后工作日 | {}离职; 最后工作日为{}; 于{}解除合同
date | probation_end, end_of_probation | probation lasts until {}; trial period ends on {} | 试用期结束日, 转正日期 | 试用期至{}; {}转正
date | appointment_date, visit_date, examined_on | appointment on {}; seen on {}; visit of {}; comes in on {} | 就诊日期, 预约日期 | {}就诊; 预约日期为{}; 于{}来院
date | follow_up_date, next_visit, review_date | come back on {}; next visit {}; follow-up on {}; to be reviewed on {} | 复诊日期, 下次就诊日期 | {}复诊; 复诊日期为{}; 下次复查：{}
date | application_deadline, deadline, apply_by | deadline is {}; apply by {}; closes on {}; submissions until {} | 截止日期, 申请截止日 | 截止日期为{}; 请在{}前提交; {}截止
date | submitted_on, submission_date, filed_on | submitted on {}; filed {}; handed in on {}; received by us on {} | 提交日期, 申请日期 | {}提交; 于{}递交; 提交日期：{}
date | approval_date, approved_on | approved on {}; approval came on {}; released {} | 批准日期, 审批日期 | {}获批; 批准日期为{}; 于{}审批通过
date | publication_date, published_on, release_date | published on {}; appeared {}; release on {}; out since {} | 出版日期, 发布日期 | {}发布; 出版日期为{}; 于{}出版
date | inspection_date, inspected_on, tested_on | inspected on {}; tested {}; the check was done on {} | 检验日期, 检查日期 | {}检验; 检查日期为{}; 于{}检测
date | renewal_date, next_renewal | to be renewed on {}; renewal {}; renews on {} | 续约日期, 续费日期 | {}续约; 续费日期为{}
date | warranty_until, warranty_end | warranty until {}; guaranteed up to {}; warranty ends on {} | 保修截止日, 质保到期日 | 保修至{}; 质保期到{}为止
date | departure_date, travel_date, outbound_date | leaves on {}; outbound on {}; the trip begins {}; departure {} | 出发日期, 启程日期 | {}出发; 出发日期为{}; 于{}启程
date | return_date, inbound_date, back_on | back on {}; returns on {}; the trip ends {}; return flight {} | 返回日期, 回程日期 | {}返回; 回程日期为{}; 于{}归来
date | meeting_date, held_on | meeting of {}; we met on {}; held on {}; took place {} | 会议日期, 召开日期 | {}召开; 会议日期为{}; 于{}开会
date | next_meeting, next_session | next meeting {}; we meet again on {}; to be continued on {} | 下次会议日期 | 下次会议{}; 定于{}再次开会
date | admission_date, admitted_on | admitted on {}; in hospital since {}; admission {} | 入院日期 | {}入院; 入院日期为{}
date | discharge_date, discharged_on | discharged on {}; went home on {}; discharge {} | 出院日期 | {}出院; 出院日期为{}
date | hearing_date, trial_date | hearing on {}; the case is heard on {}; trial date {} | 开庭日期 | {}开庭; 开庭日期为{}
date | maturity_date, repay_by | matures on {}; to be repaid by {}; repayment on {} | 还款日期, 到期还款日 | 应于{}还清; 还款日期为{}
date | manufactured_on, production_date | made on {}; production date {}; manufactured {} | 生产日期 | 生产日期{}; 于{}生产
money | total_amount, total, grand_total, contract_value | total of {}; in total {}; all together {}; the contract is worth {}; grand total {} | 总金额, 合计, 合同总额 | 合计{}; 总金额{}; 总计{}; 合同总价为{}
money | deposit, advance_payment, down_payment | deposit of {}; {} paid in advance; down payment {}; {} payable upfront | 定金, 预付款, 首付款 | 定金{}; 预付{}; 首付款为{}; 先付{}
money | balance, remaining_amount, outstanding | balance of {}; {} remains to be paid; still outstanding: {}; the rest, {} | 尾款, 余款, 未付金额 | 尾款{}; 余款{}; 尚欠{}; 剩余{}
money | tax, vat_amount, tax_amount | tax {}; VAT of {}; plus {} tax; tax amounts to {} | 税额, 增值税额 | 税额{}; 增值税{}; 税款为{}
money | subtotal, net_amount, amount_before_tax | net {}; before tax {}; subtotal {}; {} excluding VAT | 不含税金额, 小计, 净额 | 不含税{}; 小计{}; 税前金额{}
money | discount, discount_amount, rebate | discount of {}; {} off; we deduct {}; rebate {} | 折扣金额, 优惠金额 | 优惠{}; 减免{}; 折扣{}; 扣减{}
money | shipping_cost, delivery_fee, freight_charge | shipping {}; delivery costs {}; freight charge {}; {} for transport | 运费, 配送费 | 运费{}; 配送费为{}; 物流费用{}
money | unit_price, price_each, price_per_unit | {} each; unit price {}; {} a piece; price per unit {} | 单价, 每件价格 | 单价{}; 每件{}; 单价为{}
money | salary, monthly_salary, base_pay | salary of {}; monthly pay {}; earns {} a month; base salary {} | 月薪, 基本工资 | 月薪{}; 工资{}; 基本工资为{}
money | bonus, annual_bonus | bonus of {}; plus a bonus: {}; {} as a bonus | 奖金, 年终奖 | 奖金{}; 年终奖{}; 另发奖金{}
money | allowance, travel_allowance, housing_allowance | allowance of {}; {} for travel; {} towards housing | 补贴, 津贴 | 补贴{}; 津贴为{}; 交通补助{}
money | loan_amount, principal, amount_borrowed | loan of {}; {} is lent; principal {}; borrows {} | 贷款金额, 本金, 借款金额 | 贷款{}; 本金{}; 借款{}; 借款金额为{}
money | monthly_payment, instalment, installment | {} every month; instalments of {}; monthly payment {}; repaid at {} a month | 月供, 每期还款额 | 每月还{}; 月供{}; 每期还款{}
money | budget, approved_budget, planned_cost | budget of {}; {} is approved; planned at {}; we may spend {} | 预算, 预算金额 | 预算{}; 批准预算{}; 计划投入{}
money | spent, actual_cost, expenses | spent so far: {}; actual cost {}; expenses came to {}; {} was used | 实际支出, 已用金额 | 实际支出{}; 已花费{}; 已使用{}
money | penalty, fine, late_fee | fine of {}; penalty {}; {} for lateness; late fee {} | 罚款, 违约金, 滞纳金 | 罚款{}; 违约金{}; 滞纳金为{}
money | refund, refund_amount, money_back | refund of {}; we pay back {}; {} will be returned; refunded: {} | 退款金额 | 退款{}; 退还{}; 退款金额为{}
money | service_fee, commission, handling_fee | fee of {}; commission {}; {} for our services; handling {} | 服务费, 手续费, 佣金 | 服务费{}; 手续费{}; 佣金为{}
money | donation, grant_amount, subsidy | grant of {}; {} was donated; subsidy: {}; funded with {} | 捐款金额, 资助金额, 补助金 | 捐款{}; 资助{}; 补助{}
money | tuition, course_fee | tuition {}; course fee of {}; the course costs {} | 学费, 课程费用 | 学费{}; 课程费{}; 学费为{}
money | revenue, turnover, sales | revenue of {}; sales came to {}; turnover {}; took in {} | 营业收入, 销售额 | 营收{}; 销售额{}; 收入达{}
money | profit, net_profit, earnings | profit of {}; earned {} after costs; net profit {} | 净利润, 利润 | 净利润{}; 盈利{}; 利润为{}
money | cost, production_cost, expenditure | costs of {}; cost {} to make; expenditure {} | 成本, 生产成本 | 成本{}; 生产成本为{}
money | credit_limit, limit | credit limit {}; up to {}; may draw {} | 信用额度, 授信额度 | 额度{}; 授信额度为{}; 最高可用{}
money | annual_fee, membership_fee, subscription | {} a year; membership fee {}; annual fee of {} | 年费, 会员费 | 年费{}; 会员费为{}; 每年{}
money | material_cost, parts_cost | material {}; {} for material; materials cost {} | 材料费 | 材料费{}; 材料费用为{}
count | quantity, ordered_quantity, qty | {} pieces ordered; quantity {}; we need {} units; order of {} pcs | 数量, 订购数量 | 订购{}件; 数量为{}; 共{}台
count | delivered_quantity, received_quantity | {} arrived; {} pieces were delivered; received {} units | 到货数量, 实收数量 | 到货{}件; 实收{}; 收到{}台
count | damaged, defective_units, rejected | {} were broken; {} defective; {} units rejected | 损坏数量, 不合格数量 | 损坏{}件; 不合格{}件; 次品{}台
count | headcount, participants, attendance | {} people took part; {} participants; attended by {} | 参加人数, 人数 | {}人参加; 参会人数{}; 共{}人
count | absent, absentees | {} were absent; {} people could not come | 缺席人数 | 缺席{}人; {}人请假
count | hours_worked, hours | {} hours worked; took {} hours; {} hours in all | 工时, 工作小时数 | 工时{}小时; 共用{}小时
count | duration_days, days, days_needed | lasts {} days; within {} days; {} days in all | 天数, 工期天数 | 工期{}天; 为期{}天; 共{}天
count | warranty_months, term_months | for {} months; term of {} months; {} months of warranty | 保修月数, 期限月数 | 期限{}个月; 保修{}个月
count | pages, page_count | {} pages; has {} pages | 页数 | 共{}页; 页数{}
count | age, patient_age | aged {}; {} years old; age {} | 年龄 | {}岁; 年龄{}
count | mileage, distance_km | {} km driven; distance {} km; stands at {} km | 里程, 行驶里程 | 行驶{}公里; 里程{}公里
count | area, floor_area | {} square metres; area of {} m² | 面积 | 面积{}平方米; {}平米
count | seat, seat_number | seat {}; seat no. {} | 座位号 | 座位{}; 座位号{}
count | floor, storey | on floor {}; {} floors up | 楼层 | 位于{}楼; 楼层{}
count | gate, platform | gate {}; leaves from platform {} | 登机口, 站台 | 登机口{}; {}号站台
rate | interest_rate, annual_rate | interest at {}%; {}% a year; rate of {}% | 利率, 年利率 | 年利率{}%; 利率为{}%
rate | discount_rate, discount_percent | {}% off; discount of {}% | 折扣率 | 优惠{}%; 折扣率{}%
rate | vat_rate, tax_rate | VAT at {}%; taxed at {}%; {}% tax | 税率 | 税率{}%; 按{}%计税
rate | penalty_rate, late_interest | {}% for each day of delay; late interest {}% | 违约金比例 | 逾期按{}%计; 违约金比例{}%
rate | ownership, share_percent | holds {}%; a share of {}% | 持股比例, 股权比例 | 持股{}%; 占{}%
code | order_number, order_no, order_id | order {}; order number {}; your order no. {} | 订单号, 订单编号 | 订单{}; 订单号{}; 订单编号为{}
code | invoice_number, invoice_no | invoice {}; invoice number {}; bill no. {} | 发票号, 发票号码 | 发票{}; 发票号码{}
code | contract_number, contract_no, agreement_id | contract {}; agreement no. {}; contract number {} | 合同编号, 合同号 | 合同编号{}; 合同{}; 合同号：{}
code | customer_number, customer_id, client_id | customer number {}; customer no. {}; client ID {} | 客户编号, 客户号 | 客户编号{}; 客户号为{}
code | employee_id, staff_number, personnel_no | staff number {}; employee ID {}; personnel no. {} | 工号, 员工编号 | 工号{}; 员工编号：{}
code | patient_id, record_number, chart_no | record {}; patient ID {}; chart no. {} | 病历号, 患者编号 | 病历号{}; 患者编号为{}
code | serial_number, serial_no, device_id | serial number {}; S/N {}; device {} | 序列号, 设备编号 | 序列号{}; 设备编号：{}
code | batch_number, lot, batch_id | batch {}; lot no. {}; from batch {} | 批号, 批次 | 批号{}; 批次为{}
code | project_code, project_id | project {}; project code {}; under code {} | 项目编号, 项目代码 | 项目编号{}; 项目代码为{}
code | account_number, account, iban | account {}; to account no. {}; bank account {} | 账号, 银行账户 | 账号{}; 转入账户{}
code | ticket_id, ticket_no, incident_number | ticket {}; ticket no. {}; logged as {} | 工单号, 工单编号 | 工单{}; 工单号{}
code | license_plate, plate_number, vehicle | plate {}; vehicle {}; registered as {} | 车牌号 | 车牌{}; 车牌号为{}
code | model, model_number, type_no | model {}; type {}; model no. {} | 型号 | 型号{}; 型号为{}
code | flight_number, flight, train_no | flight {}; on flight {}; travels by {} | 航班号, 车次 | 航班{}; 乘坐{}
code | file_number, case_number, docket | file {}; case no. {}; our reference {} | 案号, 档案编号 | 案号{}; 档案编号{}
code | quote_number, offer_id | quote {}; offer no. {}; according to quotation {} | 报价单号 | 报价单{}; 报价单号为{}
city | city, office_location, branch | at our office in {}; the {} branch; based in {}; in {} | 城市, 所在城市 | 位于{}; 在{}; {}分公司
city | birthplace, place_of_birth | born in {}; birthplace {}; comes from {} | 出生地, 籍贯 | 出生于{}; 籍贯{}
city | venue_city, event_city, meeting_place | held in {}; the event takes place in {}; we meet in {} | 举办城市, 会议地点 | 在{}举办; 地点为{}; 于{}召开
city | registered_seat, headquarters | registered in {}; headquarters are in {}; seat: {} | 注册地, 总部所在地 | 注册地{}; 总部设在{}
city | workplace, place_of_work | works in {}; place of work: {} | 工作地点 | 工作地点为{}; 在{}工作
address | delivery_address, ship_to, deliver_to | deliver to {}; ship to {}; delivery address: {} | 收货地址, 送货地址 | 送到{}; 收货地址：{}; 寄往{}
address | billing_address, invoice_address | bill to {}; invoice address: {}; billing address is {} | 账单地址, 开票地址 | 账单寄到{}; 开票地址：{}
address | home_address, residence | lives at {}; home address: {}; resident at {} | 家庭住址, 住址 | 家住{}; 住址：{}; 现居{}
address | office_address, business_address | office at {}; our address is {}; find us at {} | 办公地址, 公司地址 | 办公地址：{}; 公司位于{}
address | venue, place, event_address | venue: {}; takes place at {}; come to {} | 会场地址, 活动地点 | 会场：{}; 活动地点在{}
address | pickup_address, collect_from | pick up at {}; to be collected from {} | 取货地址, 提货地点 | 取货地址：{}; 到{}提货
phone | phone, telephone, contact_phone | phone {}; call {}; reach us at {}; tel. {} | 电话, 联系电话 | 电话{}; 请拨打{}; 联系电话：{}
phone | mobile, cell_phone | mobile {}; on the road: {}; cell {} | 手机, 手机号 | 手机{}; 手机号：{}
phone | fax, fax_number | fax {}; by fax to {} | 传真 | 传真{}; 传真号：{}
phone | emergency_phone, hotline | hotline {}; at night call {}; emergency number {} | 紧急电话, 热线 | 热线{}; 紧急电话：{}
email | email, contact_email | write to {}; e-mail {}; mail: {} | 邮箱, 电子邮件 | 邮箱{}; 邮件请发{}
email | billing_email, invoice_email | send invoices to {}; billing questions: {} | 开票邮箱, 财务邮箱 | 发票发到{}; 财务邮箱：{}
email | support_email, help_desk | support at {}; for help write to {} | 客服邮箱, 技术支持邮箱 | 客服邮箱：{}; 技术支持请联系{}
product | product, item, goods | for {}; article: {}; the goods are {}; order of {} | 产品, 商品名称 | 产品：{}; 购买{}; 货物为{}
product | replacement, substitute_item | replaced by {}; instead we send {}; substitute: {} | 替代品, 更换产品 | 改发{}; 替代品为{}
product | free_gift, extra_item | with {} as a gift; we add {} for free | 赠品 | 赠送{}; 赠品为{}
topic | subject, topic, title | about {}; topic: {}; subject: {}; concerning {} | 主题, 标题 | 主题：{}; 关于{}
topic | department, unit, team | department: {}; from the {} department; belongs to {} | 部门, 所属部门 | 部门：{}; 所属部门为{}; 隶属{}
topic | position, job_title, role | as {}; position: {}; works as {}; job title {} | 职位, 岗位 | 职位：{}; 担任{}; 岗位为{}
"""


def _read(line: str) -> Role:
    sort, names, phrases, chinese_names, chinese_phrases = (part.strip() for part in line.split(" | "))
    return Role(
        sort, tuple(names.split(", ")), tuple(phrases.split("; ")), tuple(chinese_names.split(", ")),
        tuple(chinese_phrases.split("; ")),
    )  # fmt: skip


ROLES = tuple(_read(line) for line in _TABLE.strip().splitlines())
