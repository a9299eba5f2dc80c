import t from 'tap'
import { adaptedBlocks, isAdapted } from '../../../src/capabilities/import/caddy/adapted.js'
import { readCaddy } from '../../../src/capabilities/import/caddy/read.js'
import { readHaproxy } from '../../../src/capabilities/import/haproxy/read.js'
import { damageTexts, importWith } from './kit.js'

t.test('JSON of Caddy that is damaged is read, or refused with a place', (t) => {
  const seed = JSON.stringify({
    apps: {
      http: {
        servers: {
          a: {
            listen: [':80'],
            routes: [{ match: [{ host: ['a'], path: ['/x/*'] }], handle: [{ handler: 'static_response', body: 'b' }] }]
          }
        }
      }
    }
  })
  let adapted = 0
  const read = damageTexts(seed, ['{', '}', '[', ']', '"', ':', ',', 'null', '1', '\\', '\n', 'é', '"a":'], (text) => {
    if (!isAdapted(text)) return
    adapted++
    adaptedBlocks(text, 'f')
  })
  t.ok(read > 100 && adapted > 50, `${adapted} texts were JSON`)
  t.end()
})

t.test('a thousand lines of Caddy and HAProxy take at most 300 ms of CPU', async (t) => {
  const sites = Array.from(
    { length: 100 },
    (_, index) =>
      `http://host${index}.test {\n\tencode gzip\n\thandle_path /api/* {\n\t\treverse_proxy api${index}:4000\n\t}\n\thandle {\n\t\treverse_proxy app${index}:3000\n\t}\n\theader X-Number ${index}\n}\n`
  ).join('')
  const backends = Array.from(
    { length: 160 },
    (_, index) =>
      `backend b${index}\n  balance leastconn\n  server a 10.0.0.1:${3000 + index}\n  server b 10.0.0.2:${3000 + index}\n\n`
  ).join('')
  const rules = Array.from(
    { length: 160 },
    (_, index) => `  use_backend b${index} if { path_beg /app${index}/ }\n`
  ).join('')
  const haproxy = `defaults\n  mode http\nfrontend web\n  bind :80\n${rules}  default_backend b0\n${backends}`
  for (const [reader, file, text] of [
    [readCaddy, 'Caddyfile', sites],
    [readHaproxy, 'haproxy.cfg', haproxy]
  ] as const) {
    t.ok(text.split('\n').length >= 950, file)
    let least = Number.POSITIVE_INFINITY
    for (let round = 0; round < 3 && least > 300; round++) {
      const before = process.cpuUsage()
      await importWith(reader, { [file]: text })
      const { user, system } = process.cpuUsage(before)
      least = Math.min(least, (user + system) / 1000)
    }
    t.ok(least <= 300, `${file}: ${Math.round(least)} ms`)
  }
})
