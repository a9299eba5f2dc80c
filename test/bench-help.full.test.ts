import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { projectFile } from './helpers/files.js'

const run = promisify(execFile)

t.test('the help of the benchmark names every flag, its time and its tools, and builds nothing', async (t) => {
  const { stdout } = await run('npm', ['run', '--silent', 'bench', '--', '--help'])
  const source = await readFile(projectFile('bench/run.ts'), 'utf8')
  const flags = [...source.matchAll(/argument\('([a-z]+)'|'--([a-z]+)'/g)].map(([, one, other]) => one ?? other)
  t.ok(flags.length >= 6)
  for (const flag of flags) t.match(stdout, `--${flag} `)
  t.match(stdout, /Time: .*minute[\s\S]*Tools: .*nginx/)
})
