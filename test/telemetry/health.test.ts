import { readFileSync } from 'node:fs'
import t from 'tap'
import { Health, type HealthSources, reasons } from '../../src/telemetry/health.js'
import { ManualClock } from '../helpers/clock.js'
import { Lines } from '../store/opened.js'

type Changing = { -readonly [source in keyof HealthSources]: HealthSources[source] }

function stand() {
  const sources: Changing = {
    storeTrouble: () => undefined,
    servesCopy: () => false,
    revisionsBehind: () => 0,
    lastError: () => null,
    logDropping: () => undefined,
    overdueCertificates: () => 0,
    dnsSilent: () => false,
    fullListeners: () => new Set(),
    workersMissing: () => 0,
    descriptors: () => undefined
  }
  const clock = new ManualClock()
  const log = new Lines()
  return { sources, clock, log, health: new Health({ sources, clock, log }) }
}

/** What makes each reason hold, and no other one. */
const CAUSES: Readonly<Record<(typeof reasons)[number]['name'], Partial<HealthSources>>> = {
  store_unreachable: { storeTrouble: () => 'unreachable' },
  store_read_only: { storeTrouble: () => 'read_only' },
  store_failing: { storeTrouble: () => 'failing' },
  store_full: { storeTrouble: () => 'full' },
  serving_copy: { servesCopy: () => true },
  revisions_behind: { revisionsBehind: () => 3 },
  configuration_incomplete: { lastError: () => 'a port with a secret name' },
  log_dropping: { logDropping: () => 'ENOSPC' },
  certificate_overdue: { overdueCertificates: () => 1 },
  dns_unreachable: { dnsSilent: () => true },
  connections_used_up: { fullListeners: () => new Set(['main']) },
  workers_missing: { workersMissing: () => 1 },
  descriptors_short: { descriptors: () => ({ used: 95, allowed: 100, short: true }) }
}

for (const { name, means, logged } of reasons) {
  t.test(`${name} is shown while it holds, and each change of it is one line`, (t) => {
    const { sources, clock, log, health } = stand()
    t.same(health.look(), [])
    Object.assign(sources, CAUSES[name])
    for (let look = 0; look < 5; look++) t.same(health.look(), [name])
    t.equal(log.texts.length, logged === true ? 0 : 1)
    clock.advance(61_000)
    Object.assign(sources, stand().sources)
    for (let look = 0; look < 5; look++) t.same(health.look(), [])
    if (logged !== true) {
      t.equal(log.texts.length, 2)
      t.ok(log.texts[0]?.startsWith(`degraded: ${means} `))
      t.match(log.texts[1], `"reason":"${name}","seconds":61`)
    }
    t.notMatch(log.texts.join(), 'secret', 'what is configured stays out of it')
    t.end()
  })
}

t.test('numbers that belong to a reason stand in its line', (t) => {
  const { sources, log, health } = stand()
  Object.assign(sources, CAUSES.revisions_behind, CAUSES.descriptors_short)
  t.same(health.look(), ['revisions_behind', 'descriptors_short'])
  t.match(log.texts[0], '"revisions":3')
  t.match(log.texts[1], '"used":95,"allowed":100')
  t.end()
})

t.test('the manual names every reason', (t) => {
  const manual = readFileSync('docs/operations.md', 'utf8')
  for (const { name } of reasons) t.ok(manual.includes(`\`${name}\``), name)
  t.end()
})
