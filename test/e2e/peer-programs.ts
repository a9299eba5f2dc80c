import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Test } from 'tap'
import { accepts } from '../helpers/peer-program.js'
import { freePort } from '../proxy/free-port.js'

const START = 10_000
const LONG = process.env.SLUICE_TEST_LONG === '1'

export type Program = 'nginx' | 'haproxy'

/** Why tests with this program are skipped, or false. The long runs fail instead. */
export function missing(program: Program): string | false {
  if (existsSync(`/usr/sbin/${program}`)) return false
  if (LONG) throw new Error(`${program} is not installed`)
  return `${program} is not installed`
}

/** A proxy of another make that runs on a configuration of a test. */
export interface PeerProgram {
  readonly port: number
  readonly child: ChildProcess
  /** Takes the place of the configuration; a signal makes the program read it. */
  write(configuration: string): Promise<void>
  /** What it said of faults. */
  said(): string
}

/** Starts a program on a free port and waits until it accepts; it ends with the test. `configure` gets the port and the folder of `files`. */
export async function startPeer(
  t: Test,
  program: Program,
  configure: (port: number, folder: string) => string,
  files: Readonly<Record<string, string>> = {}
): Promise<PeerProgram> {
  const folder = await mkdtemp(join(tmpdir(), `sluice-${program}-`))
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  const port = await freePort()
  const file = join(folder, 'conf')
  const path = `/usr/sbin/${program}`
  const words = program === 'nginx' ? ['-p', folder, '-c', file] : ['-db', '-f', file]
  await writeFile(file, configure(port, folder))
  // It says what is wrong with a configuration.
  execFileSync(path, program === 'nginx' ? ['-t', ...words] : ['-c', ...words], { stdio: 'pipe' })
  const child = spawn(path, words, { stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr.on('data', (piece) => {
    said += piece
  })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
    await Promise.race([exited, setTimeout(5_000, undefined, { ref: false }).then(() => child.kill('SIGKILL'))])
    await rm(folder, { recursive: true, force: true })
  })
  const end = Date.now() + START
  while (!(await accepts(port))) {
    if (child.exitCode !== null || Date.now() > end) throw new Error(`${program} does not accept on ${port}: ${said}`)
    await setTimeout(10)
  }
  const log = join(folder, 'error.log')
  return {
    port,
    child,
    write: (configuration) => writeFile(file, configuration),
    said: () => said + (existsSync(log) ? readFileSync(log, 'utf8') : '')
  }
}

/** A configuration of nginx with this server; `http` stands beside it. */
export function nginxConf(folder: string, server: string, http = ''): string {
  const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`
  )
  return `daemon off; worker_processes 1; pid ${folder}/pid; error_log ${folder}/error.log error;
events { worker_connections 1024; }
http {
  access_log off; client_max_body_size 0; client_body_buffer_size 2m; proxy_max_temp_file_size 0; ${places.join(' ')}
  ${http}
  server { ${server} }
}
`
}

/** A configuration of HAProxy with these lines of its frontend and its backend. */
export function haproxyConf(frontend: string, backend: string): string {
  return `global
  nbthread 1
  maxconn 1000
defaults
  mode http
  timeout client 30s
  timeout server 30s
  timeout connect 5s
frontend in
  ${frontend}
  default_backend out
backend out
  ${backend}
`
}
