import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { lacks } from '../helpers/small-disk.js'
import { SluiceProcess } from './process.js'

const run = promisify(execFile)

t.test('completion in a real bash: commands, subcommands, flags', { skip: lacks('bash', ['--version']) }, async (t) => {
  const cwd = t.testdir()
  const { out, code } = await new SluiceProcess(t, ['completion', 'bash'], { cwd }).ended()
  t.equal(code, 0)
  const script = join(cwd, 'completion')
  await writeFile(script, out)
  const offered = async (...words: string[]) => {
    const line = `source '${script}'; COMP_WORDS=(sluice "$@"); COMP_CWORD=$#; _sluice; echo "\${COMPREPLY[@]}"`
    const { stdout } = await run('bash', ['-c', line, 'bash', ...words])
    return stdout.trim().split(' ')
  }
  t.has(await offered(''), ['start'])
  t.same(await offered('sta'), ['start', 'status'])
  t.same(await offered('start', '--upst'), ['--upstream'])
  t.match((await offered('api-key', '')).slice(0, 3), ['create', 'list', 'revoke'])
  t.match(
    await offered('start', '--upstream', 'http://x', '--polic'),
    ['--policy'],
    'the value of a flag changes nothing'
  )
})

t.test('scripts of the other shells, and a shell that there is not', async (t) => {
  const cwd = t.testdir()
  const of = (shell: string) => new SluiceProcess(t, ['completion', shell], { cwd }).ended()
  const [zsh, fish, none] = await Promise.all([of('zsh'), of('fish'), of('tcsh')])
  t.match(zsh, { code: 0, out: /^#compdef sluice\n/ })
  t.match(fish, { code: 0, out: /complete -c sluice -n '__sluice_at start' -l upstream -r -d / })
  t.match(none, { code: 2, err: /bash, zsh, fish/ })
})

t.test('upgrade compares with a release file that is named', async (t) => {
  const cwd = t.testdir({
    'same.json': '{"version":"0.2.0"}',
    'older.json': '{"version":"0.1.99"}',
    'newer.json': '{"version":"0.10.0"}',
    'none.json': '{"version":"latest"}',
    'null.json': 'null',
    'text.json': '0.3.0'
  })
  const check = (file: string) => new SluiceProcess(t, ['upgrade', '--check', file], { cwd }).ended()
  const found = await Promise.all(
    ['same.json', 'older.json', 'newer.json', 'none.json', 'null.json', 'text.json', 'missing.json'].map(check)
  )
  t.match(found, [
    { code: 0, out: /0\.2\.0 is current/ },
    { code: 0, out: /is current/ },
    { code: 1, out: /0\.10\.0 is newer than 0\.2\.0: .*--take-over/ },
    { code: 2, err: /none\.json: .*"version"/ },
    { code: 2, err: /null\.json: no JSON/ },
    { code: 2, err: /text\.json: no JSON/ },
    { code: 2, err: 'error: missing.json: there is no such file (ENOENT); correct the path' }
  ])
})
