import { readFileSync } from 'node:fs'
import t from 'tap'
import { parse } from 'yaml'
import type { Flow } from '../../../src/flow/flow.js'
import { projectFile } from '../../helpers/files.js'
import { makeFlow } from '../../helpers/flow.js'
import { headersOf, Kit, outcomeOf } from '../kit.js'
import { random, whole } from './limiter/support/random.js'

const base = {
  name: 'each',
  algorithm: 'sliding_window',
  capacity: 10,
  rate: '60s',
  bucket_key: ['conn.client_ip']
}
const CAPACITY = "int(req.headers['x-capacity'][0])"
const COST = "int(req.headers['x-cost'][0])"

const weighing = (headers: Readonly<Record<string, string | number>>) =>
  makeFlow({
    clientAddress: '192.0.2.1',
    headers: Object.entries(headers).flatMap(([name, value]) => [name, String(value)])
  })

function result(kit: Kit, flow: Flow) {
  return kit.read('actions.service.rate_limit', flow)
}

t.test('a request counts for as many as its cost says, and its fields are those of its own', async (t) => {
  const kit = new Kit('draft')
  const run = kit.action('rate-limit', { ...base, cost: COST })
  const first = weighing({ 'x-cost': 7 })
  t.equal(run(first), undefined)
  t.match(result(kit, first), { limited: false, remaining: 3, capacity: 10, cost: 7 })
  kit.clock.now += 20_000
  t.equal(run(weighing({ 'x-cost': 2 })), undefined)
  kit.clock.now += 10_000
  const heavy = weighing({ 'x-cost': 4 })
  t.same(headersOf(run(heavy)), { 'retry-after': '30' }, 'when the seven have left')
  t.match(heavy.responseFields?.[3], /;r=1;t=50$/)
  t.match(result(kit, heavy), { limited: true, remaining: 1, cost: 4 })
  t.equal(run(weighing({ 'x-cost': 1 })), undefined, 'a lighter one has room')
  t.same(headersOf(run(weighing({ 'x-cost': 1 }))), { 'retry-after': '30' })
  kit.clock.now += 30_000
  t.equal(run(weighing({ 'x-cost': 4 })), undefined, 'waiting as told is enough')
  t.same(headersOf(run(weighing({ 'x-cost': 11 }))), { 'retry-after': '60' }, 'more than all there is never passes')
})

t.test('what costs nothing passes while the bucket is not above its capacity, and counts nothing', async (t) => {
  const kit = new Kit()
  const run = kit.action('rate-limit', { ...base, cost: COST, capacity: CAPACITY })
  for (let i = 0; i < 20; i++) t.equal(run(weighing({ 'x-cost': 0, 'x-capacity': 3 })), undefined)
  t.equal(run(weighing({ 'x-cost': 3, 'x-capacity': 3 })), undefined)
  const full = weighing({ 'x-cost': 0, 'x-capacity': 3 })
  t.equal(run(full), undefined)
  t.match(result(kit, full), { remaining: 0, cost: 0 })
  t.equal(outcomeOf(run(weighing({ 'x-cost': 1, 'x-capacity': 3 }))), '429 RATE_LIMITED')
  kit.clock.now += 59_000
  t.same(headersOf(run(weighing({ 'x-cost': 0, 'x-capacity': 2 }))), { 'retry-after': '1' }, 'above this capacity')
  kit.clock.now += 1_000
  t.equal(run(weighing({ 'x-cost': 0, 'x-capacity': 2 })), undefined, 'none of it has made the bucket stay')
})

t.test('a capacity of each request changes the comparison alone', async (t) => {
  const kit = new Kit('draft')
  const plan = "getReqHeader('x-plan').join('') == 'gold' ? 5 : 2"
  const run = kit.action('rate-limit', { ...base, capacity: plan })
  const gold = () => weighing({ 'x-plan': 'gold' })
  const other = () => weighing({ 'x-plan': 'tin' })
  for (let i = 0; i < 4; i++) t.equal(run(gold()), undefined)
  const refused = other()
  t.equal(outcomeOf(run(refused)), '429 RATE_LIMITED', 'four were admitted, whoever was')
  t.match(refused.responseFields?.[1], /;q=2;/)
  const last = gold()
  t.equal(run(last), undefined)
  t.match(last.responseFields?.[1], /;q=5;/)
  t.match(result(kit, last), { capacity: 5, remaining: 0 })
  t.equal(outcomeOf(run(gold())), '429 RATE_LIMITED')
  kit.clock.now += 60_000
  for (const status of [undefined, undefined]) t.equal(run(other()), status)
  t.equal(outcomeOf(run(other())), '429 RATE_LIMITED')
})

t.test('an amount without a value refuses the request, and nothing counts', async (t) => {
  for (const [member, code, least] of [
    ['cost', 'LIMIT_COST_FAILED', 0],
    ['capacity', 'LIMIT_CAPACITY_FAILED', 1]
  ] as const) {
    const kit = new Kit('draft')
    const source = "double(req.headers['x-amount'][0])"
    const run = kit.action('rate-limit', { ...base, [member]: source })
    const bad: readonly Record<string, string>[] = [
      {},
      ...['many', '1.5', String(least - 1), '2000000001', 'NaN', '1e300', ''].map((value) => ({ 'x-amount': value }))
    ]
    for (const headers of bad) {
      const flow = weighing(headers)
      t.equal(outcomeOf(run(flow)), `500 ${code}`, JSON.stringify(headers))
      t.same(headersOf(run(flow)), {}, 'no time to wait for')
      t.equal(flow.responseFields, undefined)
      t.match(result(kit, flow), { limited: true, remaining: 0, error: { code, message: new RegExp(`^${member}: `) } })
      t.notMatch(kit.read('actions.service.rate_limit.error.message', flow), /many|NaN/)
    }
    t.equal(run(weighing({ 'x-amount': 10 })), undefined, 'nothing was counted')
    const open = kit.action('rate-limit', { ...base, name: 'open', [member]: source, enforce: false })
    const flow = weighing({})
    t.equal(open(flow), undefined, 'what is not enforced lets pass')
    t.match(result(kit, flow), { limited: true, error: { code } })
    t.match(kit.counts, { admitted: 1, refused: bad.length * 2, wouldRefuse: 1 })
  }
})

t.test('int, uint and double are whole numbers, others are not', async (t) => {
  const kit = new Kit()
  const source =
    "{'i': dyn(2), 'u': dyn(2u), 'd': dyn(2.0), 's': dyn('2'), 'b': dyn(true), 'l': dyn([2])}[getReqHeader('k')[0]]"
  const run = kit.action('rate-limit', { ...base, capacity: 2_000_000_000, cost: source })
  const outcomes = ['i', 'u', 'd', 's', 'b', 'l'].map((k) => outcomeOf(run(weighing({ k }))))
  t.same(outcomes, [...new Array(3).fill('goes on'), ...new Array(3).fill('500 LIMIT_COST_FAILED')])
})

t.test(
  'no window weighs more than the capacity of the request that ends it, whatever costs and capacities come',
  async (t) => {
    for (let seed = 1; seed <= 60; seed++) {
      const next = random(seed * 31)
      const kit = new Kit()
      const seconds = [60, 600, 10_800][seed % 3] as number
      const run = kit.action('rate-limit', { ...base, rate: `${seconds}s`, cost: COST, capacity: CAPACITY })
      const most = seed % 2 === 0 ? 50 : 5_000
      const log: { at: number; cost: number }[] = []
      const weight = (length: number) =>
        log.reduce((sum, { at, cost }) => (at > kit.clock.now - length ? sum + cost : sum), 0)
      const rate = seconds * 1_000
      const grain = seconds > 7_200 ? 60_000 : Math.floor(rate / 120)
      const wrong: string[] = []
      for (let step = 0; step < 400; step++) {
        kit.clock.now += next() < 0.3 ? 0 : Math.floor((next() * rate) / 30)
        const [cost, capacity] = [whole(next, 0, Math.ceil(most / 4)), whole(next, 1, most)]
        const verdict = run(weighing({ 'x-cost': cost, 'x-capacity': capacity }))
        if (verdict === undefined) {
          log.push({ at: kit.clock.now, cost })
          if (weight(rate) > capacity) wrong.push(`step ${step}: ${weight(rate)} of ${capacity} with ${cost}`)
        } else if (weight(rate + grain) + cost <= capacity) wrong.push(`step ${step}: refused without reason`)
      }
      t.same(wrong, [], `seed ${seed}`)
    }
  }
)

t.test('a client with many addresses has one bucket by the network of its address', async (t) => {
  const kit = new Kit()
  const run = kit.action('rate-limit', { ...base, capacity: 2, bucket_key: ['ipPrefix(conn.client_ip, 32, 64)'] })
  const from = (clientAddress: string) => outcomeOf(run(makeFlow({ clientAddress })))
  t.same(['2001:db8::1', '2001:db8::2', '2001:db8::ffff:1'].map(from), ['goes on', 'goes on', '429 RATE_LIMITED'])
  t.equal(from('2001:db8:0:1::1'), 'goes on', 'another network')
  t.same(['192.0.2.1', '192.0.2.2', '192.0.2.3'].map(from), ['goes on', 'goes on', 'goes on'], 'each address of IPv4')
})

t.test('the examples of the page about limits work', async (t) => {
  const page = readFileSync(projectFile('docs/limits.md'), 'utf8')
  const blocks = [...page.matchAll(/```yaml\n(.*?)```/gs)].map(([, text]) => String(text))
  const whole = blocks.find((text) => text.includes('cost:')) ?? ''
  const capacity = blocks.find((text) => text.startsWith('capacity:')) ?? ''
  const { config } = parse(whole).on_http_request[0].actions[0]
  const kit = new Kit()
  const run = kit.action('rate-limit', config)
  const get = (path: string, clientAddress: string) =>
    outcomeOf(run(makeFlow({ clientAddress, url: `http://app.example.com${path}` })))
  for (let i = 0; i < 9; i++) t.equal(get('/reports/1', `2001:db8::${i}`), 'goes on')
  for (let i = 0; i < 10; i++) t.equal(get('/', `2001:db8::1:${i}`), 'goes on')
  t.equal(get('/', '2001:db8::f'), '429 RATE_LIMITED', 'nine reports and ten others from one network')
  const planned = kit.action('rate-limit', { ...base, ...parse(capacity) })
  const flow = weighing({ 'x-plan': 'gold' })
  planned(flow)
  t.match(result(kit, flow), { capacity: 1000 })
  const absent = /Say what is meant where a value may be absent: `(.*?)`/.exec(page)?.[1]
  const weighed = kit.action('rate-limit', { ...base, name: 'weighed', cost: absent })
  const costs = [weighing({}), weighing({ 'x-weight': 4 })].map((one) => {
    weighed(one)
    return kit.read('actions.service.rate_limit.cost', one)
  })
  t.same(costs, [1, 4])
})
