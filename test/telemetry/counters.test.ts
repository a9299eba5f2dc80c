import { Registry } from 'prom-client'
import t from 'tap'
import { Counters, Level, Spread, Spreads, Total } from '../../src/telemetry/counters.js'

const about = { help: 'As it is.' }

t.test('counters of one set of labels count together and are shown from the first count on', async (t) => {
  const registry = new Registry()
  const counters = new Counters({ ...about, name: 'parts', labelNames: ['owner', 'rule'], registers: [registry] })
  const first = counters.labels({ owner: 'a', rule: '#0' })
  const second = counters.labels({ owner: 'a', rule: '#0' })
  counters.labels({ owner: 'never', rule: '#1' })
  t.notMatch(await registry.metrics(), /parts\{/)
  first.inc()
  second.inc()
  second.inc(40)
  counters.count({ owner: 'b","rule":"#0', rule: '' })
  const shown = await registry.metrics()
  t.match(shown, '# TYPE parts counter\nparts{owner="a",rule="#0"} 42\n')
  t.match(shown, 'parts{owner="b\\",\\"rule\\":\\"#0",rule=""} 1\n')
  t.equal(await registry.metrics(), shown, 'a scrape changes nothing')
  t.notMatch(shown, /never/)
})

t.test('a total and a level are shown from the start', async (t) => {
  const registry = new Registry()
  const total = new Total({ ...about, name: 'retries', registers: [registry] })
  const level = new Level({ ...about, name: 'open', registers: [registry] })
  t.match(await registry.metrics(), /^retries 0$/m)
  total.inc()
  level.inc()
  level.inc()
  level.dec()
  const shown = await registry.metrics()
  t.match(shown, '# TYPE retries counter\nretries 1\n')
  t.match(shown, '# TYPE open gauge\nopen 1\n')
})

t.test('a value counts in every range whose bound is not below it', async (t) => {
  const registry = new Registry()
  const spread = new Spread({ ...about, name: 'seconds', buckets: [0.5, 1], registers: [registry] })
  for (const value of [0.25, 0.5, 0.75, 8]) spread.observe(value)
  const lines = [
    '# TYPE seconds histogram',
    'seconds_bucket{le="0.5"} 2',
    'seconds_bucket{le="1"} 3',
    'seconds_bucket{le="+Inf"} 4',
    'seconds_sum 9.5',
    'seconds_count 4'
  ]
  t.match(await registry.metrics(), lines.join('\n'))
})

t.test('spreads by label forget what has gone, and what comes beyond their bound counts as other', async (t) => {
  const registry = new Registry()
  const there = new Set(['a', 'b', 'c'])
  const spreads = new Spreads({
    ...about,
    name: 'took',
    labelNames: ['route'],
    labelsOf: (route) => ({ route }),
    buckets: [1],
    most: 2,
    exists: (value) => there.has(value),
    registers: [registry]
  })
  for (const label of ['a', 'b', 'c', 'c']) spreads.observe(label, 0.5)
  const shown = await registry.metrics()
  t.match(shown, /^took_bucket\{(?:route="a",le="1"|le="1",route="a")\} 1$/m)
  t.match(shown, /^took_count\{route="b"\} 1$/m)
  t.match(shown, /^took_count\{route="other"\} 2$/m)
  t.notMatch(shown, /route="c"/)
  there.delete('a')
  t.notMatch(await registry.metrics(), /route="a"/)
  spreads.observe('c', 2)
  const after = await registry.metrics()
  t.match(after, /^took_count\{route="c"\} 1$/m, 'there is room again')
  t.match(after, /^took_sum\{route="c"\} 2$/m)
})

t.test('without a scrape what has gone makes room, too', async (t) => {
  const registry = new Registry()
  let there = 'a'
  const exists = (value: string) => value === there
  const spreads = new Spreads({
    ...about,
    name: 'took',
    labelNames: ['route'],
    labelsOf: (route) => ({ route }),
    buckets: [1],
    most: 1,
    exists,
    registers: [registry]
  })
  spreads.observe('a', 1)
  there = 'b'
  spreads.observe('b', 1)
  t.match(await registry.metrics(), /^took_count\{route="b"\} 1$/m)
})
