import t from 'tap'
import { countVerdicts } from '../../../../src/capabilities/import/report.js'
import { importWith, otherErrors } from '../kit.js'
import { CADDY } from './caddy.js'
import { NGINX } from './nginx.js'
import { HAPROXY, NGROK, TRAEFIK } from './others.js'
import type { WholeFiles } from './shape.js'

/** Files as people have them: the share of their statements that is converted, and the number of whole files. */

const SETS: Readonly<Record<string, { readonly set: WholeFiles; readonly whole: number; readonly share: number }>> = {
  nginx: { set: NGINX, whole: 15, share: 0.9 },
  caddy: { set: CADDY, whole: 9, share: 0.9 },
  haproxy: { set: HAPROXY, whole: 5, share: 0.9 },
  traefik: { set: TRAEFIK, whole: 3, share: 0.9 },
  ngrok: { set: NGROK, whole: 2, share: 0.9 }
}

for (const [format, { set, whole, share }] of Object.entries(SETS)) {
  t.test(format, async (t) => {
    let statements = 0
    let converted = 0
    let complete = 0
    for (const { name, text, others = {}, isPart } of set.files) {
      const imported = await importWith(set.read, { [set.file]: text, ...others })
      const counts = countVerdicts(imported.statements)
      const missing = imported.statements.filter(({ verdict }) => verdict.kind === 'not-here')
      statements += imported.statements.length
      converted += counts.exact + counts.close
      if (missing.length === 0) complete++
      t.equal(missing.length > 0, isPart === true, `${name}: ${missing.map((one) => one.text).join(', ')}`)
      t.same(await otherErrors(t, imported.site), [], `${name}\n${imported.site}`)
    }
    t.ok(complete >= whole, `${complete} of ${set.files.length} files are whole`)
    t.ok(converted / statements >= share, `${converted} of ${statements} statements`)
  })
}

t.test('there are at least thirty files', (t) => {
  t.ok(Object.values(SETS).reduce((sum, { set }) => sum + set.files.length, 0) >= 30)
  t.end()
})
