import t, { type Test } from 'tap'
import { policyProblems } from '../../src/app/policy-check.js'
import { offline, policyServices } from '../../src/app/services.js'
import { newVersionKey, readSiteFile } from '../../src/capabilities/site-file/declared/site-file.js'
import type { SiteFileInput } from '../../src/capabilities/site-file/declared/site-input.js'
import { SiteMemory } from '../../src/capabilities/site-file/declared/site-memory.js'
import { actions } from '../../src/features/registry.js'
import { systemClock } from '../../src/lib/clock.js'
import { readListener } from '../../src/options/values.js'
import { startProduct } from '../capabilities/tunnel/agents/product.js'
import { ourAgent } from '../capabilities/tunnel/our-agent.js'
import { account, site } from '../helpers/account.js'
import { COUNTS_THREAD, type LoopHold, leastHold, turnsOf } from '../helpers/loop-hold.js'
import { startSluice } from '../helpers/sluice.js'

/**
 * Milliseconds of CPU that work on configuration may hold the loop in a test. Slices take 1 or 2 ms; a collection of garbage and code that
 * has not been optimised yet come on top, and that of other threads where it cannot be told apart.
 */
const LONGEST = COUNTS_THREAD ? 20 : 40
/** The same beside a quarter of all the work: what is done at once is most of it, on any machine. */
const ALWAYS = 10

function holds(t: Test, { longest, turns, took }: LoopHold<unknown>, what: string): void {
  const most = Math.min(LONGEST, ALWAYS + took / 4)
  t.ok(longest < most, `${what}: the loop was held for ${longest.toFixed(1)} of ${took.toFixed(1)} ms`)
  t.ok(turns >= turnsOf({ took }), `${what}: ${turns} turns in ${took.toFixed(1)} ms`)
}

const rule = (n: number) => `  - name: rule ${n}
    expressions:
      - "req.url.path.startsWith('/section/${n}/')"
      - "req.method == 'POST' || req.headers['x-rule'][0] == '${n}'"
    actions:
      - type: add-headers
        config: { headers: { x-section: section ${n} } }
`

/** A policy of so many rules; as JSON or YAML. */
function policy(rules: number): string {
  return `on_http_request:\n${Array.from({ length: rules }, (_, n) => rule(n)).join('')}`
}

const siteEntry = (n: number, body: string) => `  site-${n}.test:
    backend: web
    policy:
      on_http_request:
        - expressions: ["req.url.path == '/${n}'"]
          actions:
            - { type: custom-response, config: { body: ${body} } }
`

const siteFile = (sites: number, body: string) =>
  `backends:\n  web: { servers: [http://127.0.0.1:9] }\nsites:\n${Array.from({ length: sites }, (_, n) =>
    siteEntry(n, n === 0 ? body : 'same')
  ).join('')}`

t.test('reading a large site file gives the loop its turns, the first time and the next', async (t) => {
  const memory = new SiteMemory()
  const input = (text: string): SiteFileInput => ({
    source: 'sites.yaml',
    folder: '/',
    text,
    environment: {},
    readFile: () => Promise.reject(new Error('no file is named')),
    policyProblems: policyProblems(policyServices(offline(actions)), actions),
    listFolder: async () => [],
    readListener,
    opened: new Map(),
    clock: systemClock,
    versionKey: newVersionKey(),
    zone: 'localhost',
    refuseExpired: true,
    policed: new Set(),
    memory
  })
  await readSiteFile(input(siteFile(40, 'before')))
  const first = await leastHold(() => readSiteFile(input(siteFile(400, 'first'))), 1)
  t.ok(first.value.file)
  holds(t, first, 'all sites')
  const again = await leastHold(() => readSiteFile(input(siteFile(400, 'second'))), 1)
  t.ok(again.value.file)
  holds(t, again, 'one site of them')
  t.ok(again.took < first.took / 3, `${again.took.toFixed(0)} ms after ${first.took.toFixed(0)} ms`)
})

interface Work {
  readonly what: string
  /** The same with another text each time, so that nothing is remembered. */
  readonly run: (n: number) => Promise<unknown>
}

/** Watches work that has been done once, so that its code is warm. */
async function watch(t: Test, works: readonly Work[]): Promise<void> {
  for (const { what, run } of works) {
    let n = 0
    await run(n)
    const held = await leastHold(() => run(++n), 1)
    holds(t, held, what)
  }
}

t.test('writes, checks, tests and candidates of large policies give the loop its turns', async (t) => {
  const sluice = await startSluice(t, {
    policy: 'on_http_request: []',
    upstream: { port: 9 },
    // The store of a folder has a thread of its own.
    options: { DATA: t.testdir() }
  })
  const asked = account(sluice)
  const ask = async (method: string, path: string, body: unknown, status = 200) => {
    const answer = await asked(path, { method, body })
    if (answer.status !== status) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer.json
  }
  const { route } = await site(sluice, 'large.test', {})
  const value = policy(200)
  const of = (n: number) => `${value}# ${n}\n`
  const cases = Array.from(
    { length: 10 },
    (_, n) => `  - { name: case ${n}, steps: [{ request: { url: 'http://a.test/${n}' }, expect: { status: 200 } }] }`
  )
  const tests = `cases:\n${cases.join('\n')}\n`
  const candidate = (n: number) => ({ policies: [{ route: 'default', text: of(n) }] })
  await watch(t, [
    { what: 'a module', run: (n) => ask('PUT', `${route}/traffic_policy`, { value: of(n) }) },
    { what: 'a record', run: (n) => ask('PATCH', route, { traffic_policy: { value: of(100 + n) } }) },
    { what: 'a file of the options', run: (n) => sluice.reload(of(200 + n)) },
    { what: 'a check', run: (n) => ask('POST', '/policies/check', { text: of(300 + n) }) },
    {
      what: 'tests',
      run: async (n) => {
        const { passed } = await ask('POST', '/policies/test', { text: of(400 + n), tests })
        if (passed !== cases.length) throw new Error(`${passed} cases passed`)
      }
    },
    { what: 'a candidate', run: (n) => ask('POST', '/explain', { url: 'http://other.test/', ...candidate(500 + n) }) },
    { what: 'a shadow', run: (n) => ask('POST', '/shadows', { budget: '50ms', ...candidate(600 + n) }, 201) },
    {
      what: 'a site file',
      run: (n) => ask('PUT', '/site', { file: 'sites.yaml', text: siteFile(200, `answer-${n}`) })
    }
  ])
})

t.test('the policy of an agent gives the loop its turns', async (t) => {
  const product = await startProduct(t)
  const { token } = await product.credential()
  const text = policy(100)
  await watch(t, [
    {
      what: 'an endpoint',
      run: async (n) => {
        const offer = { endpoint: 'http', policy: `${text}# ${n}\n`, target: 9 } as const
        await (await ourAgent.start(product.agents, token, offer)).close()
      }
    }
  ])
})
