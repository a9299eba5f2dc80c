import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t, { type Test } from 'tap'
import { buildRules } from '../../../src/features/waf/build-rules.js'
import { FolderRules, wafRules } from '../../../src/features/waf/rules.js'
import { provide } from '../../../src/policy/services.js'
import { makeFlow } from '../../helpers/flow.js'
import { heldMemory } from '../../helpers/memory.js'
import { Kit } from '../kit.js'
import { writeRules } from './crs-like.js'
import { crsFolder } from './crs-suite.js'

const silent = { info: () => undefined, error: () => undefined }

async function openKit(t: Test, folder: string) {
  const rules = await FolderRules.open({ rules: folder, skip_unknown: false }, silent, buildRules)
  if (rules === undefined) throw new Error('no rules')
  t.teardown(() => rules.close())
  return { kit: new Kit('none', { more: [provide(wafRules, rules)] }), rules }
}

/** Heap for the policy of one route with the action (bytes), a small part of what a rule set takes. */
const EACH = 24 * 1024
const ROUTES = 1_000

t.test('a thousand routes share one rule set', async (t) => {
  const { kit } = await openKit(t, crsFolder ?? writeRules(t.testdir()))
  const phases: unknown[] = []
  const addRoutes = async (count: number) => {
    for (let i = 0; i < count; i++) {
      const phase = kit.waiting([['owasp-crs-request', { paranoia: 1 + (i % 2), exclude_rule_ids: [920_350] }]])
      await phase(makeFlow({ url: `http://app.example.com/notes?page=${i}&order=newest` }))
      phases.push(phase)
    }
  }
  await addRoutes(20)
  const before = heldMemory()
  await addRoutes(ROUTES)
  const each = (heldMemory() - before) / ROUTES
  t.ok(each < EACH, `${Math.round(each)} bytes for a route`)
  t.equal(phases.length, 20 + ROUTES)
})

const folder = resolve('../shared/policies')
const skip = existsSync(folder) ? false : 'there are no recorded policies beside this folder'

t.test('policies of others that name the actions are accepted', { skip }, async (t) => {
  const { kit } = await openKit(t, crsFolder ?? writeRules(t.testdir()))
  const documents = readdirSync(folder)
    .filter((name) => /\.ya?ml$/.test(name))
    .map((name) => ({ name, text: readFileSync(join(folder, name), 'utf8') }))
    .filter(({ text }) => /type: "?owasp-crs-/.test(text))
  t.ok(documents.length > 0)
  for (const { name, text } of documents) {
    const errors = kit
      .compile(text)
      .problems.filter(({ severity, path }) => severity === 'error' || path.includes('waf'))
    t.same(errors, [], name)
  }
})
