import t from 'tap'
import { policyProblems } from '../../src/app/policy-check.js'
import { offline, policyServices } from '../../src/app/services.js'
import { newVersionKey, readSiteFile } from '../../src/control/declared/site-file.js'
import type { SiteFileInput } from '../../src/control/declared/site-input.js'
import { SiteMemory } from '../../src/control/declared/site-memory.js'
import { actions } from '../../src/features/registry.js'
import { systemClock } from '../../src/lib/clock.js'
import { readListener } from '../../src/options/values.js'
import { type LoopHold, leastHold, turnsOf } from '../helpers/loop-hold.js'
import { startSluice } from '../helpers/sluice.js'

/**
 * Milliseconds of CPU that work on configuration may hold the loop in a test. Slices take 1 ms; a collection of garbage and code that
 * has not been optimised yet come on top.
 */
const LONGEST = 40

function holds(t: Pick<typeof import('tap').t, 'ok'>, { longest, turns, took }: LoopHold<unknown>, what: string): void {
  t.ok(longest < LONGEST, `${what}: the loop was held for ${longest.toFixed(1)} ms`)
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

const site = (n: number, body: string) => `  site-${n}.test:
    backend: web
    policy:
      on_http_request:
        - expressions: ["req.url.path == '/${n}'"]
          actions:
            - { type: custom-response, config: { body: ${body} } }
`

const siteFile = (sites: number, body: string) =>
  `backends:\n  web: { servers: [http://127.0.0.1:9] }\nsites:\n${Array.from({ length: sites }, (_, n) =>
    site(n, n === 0 ? body : 'same')
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

t.test('writes of large policies give the loop its turns', async (t) => {
  const sluice = await startSluice(t)
  const ask = async (method: string, path: string, body: unknown) => {
    const response = await fetch(`http://127.0.0.1:${sluice.apiPort}${path}`, {
      method,
      headers: { authorization: `Bearer ${sluice.apiKey}`, 'service-version': '2', 'content-type': 'application/json' },
      body: JSON.stringify(body)
    })
    return { status: response.status, json: (await response.json()) as { readonly id: string } }
  }
  const { json: edge } = await ask('POST', '/edges/https', { hostports: ['large.test:443'] })
  const { json: route } = await ask('POST', `/edges/https/${edge.id}/routes`, { match: '/', match_type: 'path_prefix' })
  const path = `/edges/https/${edge.id}/routes/${route.id}`
  await ask('PUT', `${path}/traffic_policy`, { value: policy(40) })
  const value = policy(200)
  for (const [what, method, at, body] of [
    ['a module', 'PUT', `${path}/traffic_policy`, { value }],
    ['a record', 'PATCH', path, { traffic_policy: { value: `${value}# again\n` } }],
    ['a check', 'POST', '/policies/check', { text: `${value}# checked\n` }]
  ] as const) {
    const held = await leastHold(() => ask(method, at, body), 1)
    t.equal(held.value.status, 200, what)
    holds(t, held, what)
  }
})
