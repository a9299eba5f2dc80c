import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { projectFile } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { freePort } from '../proxy/free-port.js'
import { heldSocket } from './held-socket.js'
import { stepsBelow } from './pages.js'
import { staged, withPackages } from './staged.js'

const run = promisify(execFile)

/** Folders of the machine that the steps write to; the test puts the root of a folder of its own before them. */
const PLACES = /(?<![\w./$-])\/(opt|etc|usr\/local|var\/lib)\b/g

/** Reads the values of a unit file under their names. */
function unitOf(text: string): (name: string) => string[] {
  return (name) => [...text.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value = '']) => value)
}

/** Starts what the installed units say, as systemd does: the socket first, then ExecStart with its environment. */
async function startUnits(
  t: Test,
  root: string,
  path: string
): Promise<{ child: ChildProcess; port: number; api: string }> {
  const folder = join(root, 'etc', 'systemd', 'system')
  const socketUnit = unitOf(await readFile(join(folder, 'sluice.socket'), 'utf8'))
  const service = unitOf(await readFile(join(folder, 'sluice.service'), 'utf8'))
  const socket = heldSocket(t)
  const [name = ''] = socketUnit('FileDescriptorName')
  const pairs = service('Environment').flatMap((line) => line.split(' ').map((pair) => pair.split('=', 2)))
  const data = join(root, 'var', 'lib', ...service('StateDirectory'))
  await mkdir(data, { recursive: true, mode: 0o700 })
  const env = Object.fromEntries(pairs.map(([key, value = '']) => [key, value.replace(PLACES, `${root}/$1`)]))
  const [words = ''] = service('ExecStart')
  const api = `127.0.0.1:${await freePort()}`
  const child = spawn('sh', ['-c', `LISTEN_PID=$$ exec ${words.replace(PLACES, `${root}/$1`)}`], {
    cwd: data,
    env: { PATH: path, ...env, LISTEN_FDS: '1', LISTEN_FDNAMES: name, SLUICE_API_LISTEN: api },
    stdio: ['ignore', 'pipe', 'pipe', socket.fd]
  })
  t.teardown(() => child.kill('SIGKILL'))
  return { child, port: socket.port, api }
}

t.test('the steps of docs/install.md install a service that starts and answers', { timeout: 120_000 }, async (t) => {
  const folder = t.testdir({ clone: {}, root: {}, bin: {} })
  const [clone, root, bin] = ['clone', 'root', 'bin'].map((name) => join(folder, name)) as [string, string, string]
  await staged(clone)
  await withPackages(clone)
  await mkdir(join(clone, 'docs'), { recursive: true })
  await mkdir(join(root, 'usr', 'local', 'bin'), { recursive: true })
  const asked = join(folder, 'asked')
  await writeFile(join(bin, 'sudo'), '#!/bin/sh\nexec "$@"\n', { mode: 0o755 })
  await writeFile(join(bin, 'systemctl'), `#!/bin/sh\necho "$*" >>${asked}\n`, { mode: 0o755 })
  const path = `${join(root, 'usr', 'local', 'bin')}:${bin}:${process.env.PATH}`
  const steps = (await stepsBelow('With systemd')).replace(PLACES, `${root}/$1`)
  const [install = '', request = ''] = [steps.replace(/^curl .*$/m, ''), /^curl .*$/m.exec(steps)?.[0]]
  const installed = await run('bash', ['--norc', '-euo', 'pipefail', '-c', install], {
    cwd: clone,
    env: { PATH: path }
  })
  t.match(installed.stdout, /sites\.yaml: ok|1 file/, 'the example site is checked by the program in the path')
  t.same((await readFile(asked, 'utf8')).trim().split('\n'), [
    'daemon-reload',
    'enable --now sluice.socket sluice.service'
  ])

  const { child, port, api } = await startUnits(t, root, path)
  const said: string[] = []
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream as NonNullable<typeof stream> }).on('line', (line) => said.push(line))
  await until(() => said.some((line) => line.includes('"msg":"listening"')) || child.exitCode !== null)
  t.equal(child.exitCode, null, said.join('\n'))
  const answer = await run('bash', ['-c', request.replace(':8080', `:${port}`)])
  t.match(answer.stdout, /^HTTP\/1\.1 200 [\s\S]*Sluice works\.\n$/)

  const plan = (await readFile(projectFile('docs/install.md'), 'utf8')).match(/^sudo (SLUICE_DATA=.* sluice plan .*)$/m)
  const words = `${plan?.[1]?.replace(PLACES, `${root}/$1`).replace(/=(\/\S+)/, '=$1')} --api http://${api}`
  const planned = await run('bash', ['-c', words], { env: { PATH: path } }).catch((error: unknown) => error as never)
  t.match(planned, { stdout: /./ }, 'the command finds the key of the data folder')

  child.kill('SIGTERM')
  t.same(await once(child, 'exit'), [0, null])
})
