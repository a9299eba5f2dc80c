import t, { type Test } from 'tap'
import { ChallengeTable } from '../../../src/capabilities/certificates/challenges.js'
import type { ShadowExample } from '../../../src/capabilities/shadow/answers.js'
import { RunningShadows } from '../../../src/capabilities/shadow/running-shadows.js'
import type { ShadowSettings } from '../../../src/capabilities/shadow/shadow-runner.js'
import { noGeo } from '../../../src/lib/geo.js'
import { localResponse } from '../../../src/proxy/response.js'
import { pipelineWith, SILENT } from '../../helpers/pipeline.js'

const nothing = () => undefined
const SETTINGS: ShadowSettings = {
  name: null,
  share: 1,
  budget: 50,
  duration: 60_000,
  counters: 'running',
  examples: 3
}

/** Upstreams answer when the test says so. */
function stand(text: string) {
  const answers: (() => void)[] = []
  const made = pipelineWith(text, (_exchange, _flow, order) => {
    const response = { ...localResponse(200, ['x-from', 'upstream']), local: false }
    answers.push(() => order.forwarded({ response, duration: 1 }))
  })
  const { clock, holder, observers, metrics, limiter } = made
  const shadows = new RunningShadows({
    firewall: { rules: undefined },
    clock,
    log: SILENT as never,
    holder,
    observers,
    metrics,
    limiter,
    trusted: undefined,
    publicUrl: { read: () => 'http://api.test' } as never,
    challenges: new ChallengeTable(),
    rateLimitHeaders: 'none',
    limitRules: { scope: 'server', short_windows: false } as never,
    geo: noGeo,
    recorder: { attends: () => nothing, shadowed: nothing },
    elsewhere: false
  })
  return { ...made, answers, shadows }
}

async function turns(count = 6): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((turn) => setImmediate(turn))
}

/** What a shadow has seen, once nothing is under way. */
async function seen(read: () => unknown) {
  let shadow = read() as Shown
  for (let turn = 0; turn < 2_000 && (shadow.counts.waiting ?? 0) > 0; turn++) {
    await turns(1)
    shadow = read() as Shown
  }
  return shadow
}

interface Shown {
  readonly counts: Readonly<Record<string, number>>
  readonly matrix?: unknown
}

const limited = (capacity: number, name = 'all') => `on_http_request:
  - name: closed
    expressions: ["req.url.path == '/closed'"]
    actions: [{ type: close-connection }]
  - name: limited
    actions:
      - type: rate-limit
        config: { name: ${name}, algorithm: sliding_window, capacity: ${capacity}, rate: 60s, bucket_key: [conn.client_ip] }
on_http_response:
  - name: left
    actions: [{ type: add-headers, config: { headers: { x-left: "\${actions.service.rate_limit.remaining}" } } }]
`

/** Numbers below a bound, the same in each run. */
function randoms(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return Math.floor((state / 2 ** 31) * below)
  }
}

for (const seed of Array.from({ length: 12 }, (_, i) => i + 1)) {
  t.test(`beside itself, in whatever order upstreams answer, nothing differs (${seed})`, async (t) => {
    const random = randoms(seed)
    const policy = limited(1 + random(80))
    const { clock, answers, shadows, send } = stand(policy)
    const all: Promise<void>[] = []
    const some = async (count: number) => {
      for (let i = 0; i < count; i++) {
        all.push(send(random(20) === 0 ? '/closed' : '/', `192.0.2.${random(5)}`).served)
        if (random(3) === 0) {
          await turns(2)
          clock.advance(random(1_500) + random(1_000) / 1_000)
        }
        if (random(2) === 0) answers.splice(random(Math.max(1, answers.length)), 1)[0]?.()
      }
    }
    await some(200)
    // The clock of the test stands still meanwhile, as no clock does.
    const beginning = shadows.start(
      { instead: new Map([['policy:default', { text: policy, source: 'default' }]]), changes: undefined },
      SETTINGS
    )
    clock.advance(2)
    const { id } = await beginning
    clock.advance(2)
    await some(400)
    while (answers.length > 0) answers.shift()?.()
    await Promise.all(all)
    const { counts, matrix } = await seen(() => shadows.get(id))
    t.match(counts, { changed: 0, not_judged: 0, over_budget: 0, waiting: 0 }, JSON.stringify(matrix))
    t.ok((counts.judged ?? 0) > 350, `${counts.judged} were judged`)
    shadows.close()
  })
}

t.test('a configuration runs beside the one that took its place', async (t) => {
  const { shadows, send, compiled, holder, observers, answers } = stand(limited(5))
  const before = holder.current()
  holder.swap(compiled('on_http_request: [{ name: all, actions: [{ type: deny }] }]'))
  const differences: ShadowExample[] = []
  shadows.onDifference((difference) => differences.push(difference))
  const beside = shadows.beside(before, new Set(['default']), SETTINGS)
  t.equal(observers.list.length, 1)
  await send('/').served
  await send('/closed').served
  await seen(() => ({ counts: beside.counts }))
  t.match(beside.counts, { seen: 2, judged: 2, changed: 2 })
  t.same(
    differences.map(({ old, new: is }) => [old.decision, is.decision, is.by?.rule]),
    [
      ['denied', 'forwarded', undefined],
      ['denied', 'closed', 'closed']
    ]
  )
  t.same(shadows.list(), [])
  t.same(answers, [], 'no upstream was asked')
  beside.end()
  t.equal(observers.list.length, 0, 'exchanges are not looked at any more')
  await send('/').served
  t.match(beside.counts, { seen: 2 })
})

t.test('a client that leaves says nothing of the decision', async (t) => {
  const { shadows, send, answers } = stand(limited(5))
  const { id } = await shadows.start(
    { instead: new Map([['policy:default', { text: limited(9), source: 'default' }]]), changes: undefined },
    SETTINGS
  )
  const { exchange, served } = send('/')
  exchange.abort()
  answers.shift()?.()
  await served
  await turns()
  t.match(shadows.get(id), { counts: { seen: 1, judged: 0, waiting: 0 }, not_judged: { client_gone: 1 } })
  shadows.close()
  t.match(shadows.get(id), { state: 'ended', ended_reason: 'the process stops' })
})

t.test('what does not fit is dropped, and counted', async (t: Test) => {
  const { shadows, send, answers } = stand('on_http_request: []')
  const { id } = await shadows.start(
    { instead: new Map([['policy:default', { text: limited(9), source: 'default' }]]), changes: undefined },
    SETTINGS
  )
  const sent = Array.from({ length: 10_050 }, () => send('/').served)
  await turns(200)
  t.match(shadows.get(id), { counts: { seen: 10_050, dropped: 50, waiting: 10_000 } })
  for (const answer of answers.splice(0)) answer()
  await Promise.all(sent)
  t.match(await seen(() => shadows.get(id)), { counts: { judged: 10_000, changed: 10_000, dropped: 50, waiting: 0 } })
  shadows.close()
})

t.test('policies of connections are judged where the candidate has other ones', async (t) => {
  const { shadows, send, answers } = stand('on_http_request: []')
  const text = `on_tcp_connect:
  - name: shut
    expressions: ["conn.client_ip == '192.0.2.1'"]
    actions: [{ type: close-connection }]
`
  const instead = new Map([['policy:default', { text, source: 'default' }]])
  const { id } = await shadows.start({ instead, changes: undefined }, SETTINGS)
  const sent = [send('/').served, send('/', '192.0.2.2').served]
  for (const answer of answers.splice(0)) answer()
  await Promise.all(sent)
  t.match(await seen(() => shadows.get(id)), {
    counts: { judged: 2, same: 1, changed: 1 },
    matrix: [
      { old: { decision: 'forwarded' }, new: { decision: 'closed', by: { phase: 'on_tcp_connect', rule: 'shut' } } },
      {}
    ]
  })
  shadows.close()
})
