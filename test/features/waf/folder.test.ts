import { appendFileSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { buildRules } from '../../../src/features/waf/build-rules.js'
import { FolderRules } from '../../../src/features/waf/rules.js'
import { writeRules } from './crs-like.js'

async function open(t: Test, folder: string, skip_unknown = false) {
  const logged: string[] = []
  const log = {
    info: (_: object, message: string) => logged.push(message),
    error: (_: object, message: string) => logged.push(message)
  }
  const rules = await FolderRules.open({ rules: folder, skip_unknown }, log, buildRules)
  if (rules === undefined) throw new Error('no rules')
  t.teardown(() => rules.close())
  return { rules, logged }
}

t.test('a changed folder is read again when it is quiet, and a broken one is not used', async (t) => {
  const folder = writeRules(t.testdir())
  const file = join(folder, 'rules', 'REQUEST-900.conf')
  const { rules, logged } = await open(t, folder)
  const { digest, size } = rules.current
  await rules.look()
  t.equal(rules.current.digest, digest, 'nothing has changed')
  appendFileSync(file, '\nSecAction "id:999000,phase:1,nolog"\n')
  await rules.look()
  t.equal(rules.current.size, size, 'it may still be written')
  await rules.look()
  t.equal(rules.current.size, size + 1)
  t.not(rules.current.digest, digest)
  const good = rules.current
  appendFileSync(file, '\nSecNonsense\n')
  await rules.look()
  await rules.look()
  t.equal(rules.current, good)
  rmSync(join(folder, 'rules'), { recursive: true })
  await rules.look()
  await rules.look()
  t.equal(rules.current, good)
  t.match(logged, [/read again/, /cannot be used/, /cannot be used/])
})

t.test('a folder that cannot be used is refused with the reason', async (t) => {
  const cases: readonly (readonly [string, (folder: string) => void, RegExp])[] = [
    ['missing', (folder) => rmSync(folder, { recursive: true }), /waf\.rules: .*missing.*/],
    ['empty', () => undefined, /there is no file \*\.conf with rules/],
    [
      'unknown',
      (folder) => writeRules(folder, '\nSecNonsense\n'),
      /waf\.rules: REQUEST-900\.conf:\d+: the directive SecNonsense is not known/
    ]
  ]
  for (const [name, prepare, message] of cases) {
    const folder = join(t.testdir(), name)
    mkdirSync(folder)
    prepare(folder)
    await t.rejects(
      FolderRules.open({ rules: folder, skip_unknown: false }, console, buildRules),
      { code: 'WAF_RULES_INVALID', message },
      name
    )
  }
})
