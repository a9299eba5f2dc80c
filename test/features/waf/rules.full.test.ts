import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { checkFirewall } from '../../../src/cli/doctor-machine.js'
import { buildRules } from '../../../src/features/waf/build-rules.js'
import { FolderRules, GivenRules } from '../../../src/features/waf/rules.js'
import { buildRulesBeside } from '../../../src/features/waf/rules-beside.js'
import { writeRules } from './crs-like.js'
import { evaluate, matchedIds } from './rules.js'

const ATTACK = { method: 'GET', target: '/?q=%3Cscript%3E' }

t.test('rules that a thread has built match as those of this thread', async (t) => {
  const folder = writeRules(t.testdir())
  const beside = await buildRulesBeside(folder, { skip_unknown: false })
  const here = await buildRules(folder, { skip_unknown: false })
  t.equal(beside.digest, here.digest)
  t.same(beside.source, here.source)
  const [pattern] = beside.tables.patterns.values()
  t.ok(pattern?.sets.buffer instanceof SharedArrayBuffer, 'the tables are in memory that threads share')
  const matched = [beside, here].map((built) => matchedIds(evaluate(new GivenRules(built).current, ATTACK)))
  t.ok((matched[0] as number[]).length > 0)
  t.same(matched[0], matched[1])
})

t.test('a folder that cannot be used is refused by the thread with file and line', async (t) => {
  const folder = writeRules(t.testdir(), '\nSecNonsense\n')
  await t.rejects(buildRulesBeside(folder, { skip_unknown: false }), {
    code: 'WAF_RULES_INVALID',
    message: /waf\.rules: REQUEST-900\.conf:\d+: the directive SecNonsense is not known/
  })
  const { source } = await buildRulesBeside(folder, { skip_unknown: true })
  t.match(source.skipped, [/SecNonsense/])
})

t.test('changed rules reach those who follow, and serve there', async (t) => {
  const folder = writeRules(t.testdir())
  const log = { info: () => undefined, error: () => undefined }
  const rules = await FolderRules.open({ rules: folder, skip_unknown: false }, log)
  if (rules === undefined) throw new Error('no rules')
  t.teardown(() => rules.close())
  const given = new GivenRules(rules.built)
  const learnt: Promise<void>[] = []
  rules.follow((built) => learnt.push(given.replace(built)))
  appendFileSync(join(folder, 'rules', 'REQUEST-900.conf'), '\nSecAction "id:999000,phase:1,nolog"\n')
  await rules.look()
  await rules.look()
  t.equal(learnt.length, 1)
  await Promise.all(learnt)
  t.equal(given.current.digest, rules.current.digest)
  t.equal(given.current.size, rules.current.size)
})

t.test('the doctor shows name, number and digest of the rules, and those that are left out', async (t) => {
  const folder = writeRules(t.testdir())
  t.match(await checkFirewall({ waf: { rules: folder, skip_unknown: false } }), [
    { status: 'ok', message: /^TEST_RULES\/1\.0 \(number of rules: \d+, SHA-256: [0-9a-f]{64}\)$/ }
  ])
  writeFileSync(join(folder, 'rules', 'REQUEST-901.conf'), 'SecNonsense\n')
  t.match(await checkFirewall({ waf: { rules: folder, skip_unknown: false } }), [
    { status: 'error', message: /REQUEST-901\.conf:1: the directive SecNonsense is not known/, help: /skip_unknown/ }
  ])
  t.match(await checkFirewall({ waf: { rules: folder, skip_unknown: true } }), [
    { status: 'warning', message: /1 left out, the first: REQUEST-901\.conf:1/ }
  ])
  t.same(await checkFirewall({ waf: { skip_unknown: false } }), [])
})
