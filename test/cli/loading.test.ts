import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'

const FOLDER = join('dist-test', 'src')

/** Names of packages, and modules below `src`, that a module loads before it runs: those which it imports as it works are not. */
function loaded(module: string): ReadonlySet<string> {
  const found = new Set([module])
  for (const name of found) {
    if (!name.endsWith('.js')) continue
    const text = readFileSync(join(FOLDER, name), 'utf8')
    for (const [, from = ''] of text.matchAll(/^(?:import|export)\s(?:[^'"]*?\sfrom\s+)?'([^']+)'/gm))
      found.add(from.startsWith('.') ? join(dirname(name), from) : from)
  }
  return found
}

t.test('a start loads nothing of PostgreSQL', async (t) => {
  const all = loaded('cli/serve.js')
  t.ok(all.has('fastify'))
  t.ok(all.has('app/app.js'))
  t.notOk(all.has('pg'))
})

t.test('the flags of all commands are read without the work of any of them', async (t) => {
  const all = loaded('cli/program.js')
  t.ok(all.has('capabilities/transfer/command.js'))
  t.same(
    [...all].filter((name) => /^(?:app|control|store|api)\/|\/(?:capability|command-[^/]*)\.js$/.test(name)),
    []
  )
})

const OF_THE_API = [
  'certificates/command-verify',
  'guard/command-guard',
  'guard/command-revert',
  'limits/command-run',
  'recorder/command-log',
  'recorder/command-replay',
  'shadow/command-run',
  'site-file/command-diff',
  'tunnel/command-run'
]

for (const name of OF_THE_API)
  t.test(`what ${name} loads is a small part of the server`, async (t) => {
    const all = loaded(`capabilities/${name}.js`)
    t.ok(all.size > 10, `${all.size} modules were found`)
    for (const heavy of ['fastify', 'kysely', 'libsql', 'app/app.js', 'resources/registry.js', 'features/registry.js'])
      t.notOk(all.has(heavy), heavy)
    t.ok(all.size < 100, `${all.size} modules`)
  })
