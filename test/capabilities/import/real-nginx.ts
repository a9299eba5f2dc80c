import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from '../../helpers/until.js'

interface Test {
  teardown(run: () => unknown): void
}

const PROGRAM = ['nginx', '/usr/sbin/nginx'].find((name) => spawnSync(name, ['-v']).status === 0)

/** Options of tests that need nginx. */
export const NEEDS_NGINX = PROGRAM === undefined ? { skip: 'nginx is not installed (Debian: nginx-light)' } : {}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createTcpServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** Main block of a configuration that one process in the foreground serves from a folder. */
function around(http: string, folder: string): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`
  )
  return `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log;
events { worker_connections 512; }
http { access_log off; server_names_hash_max_size 4096; ${temporary.join(' ')}
${http}
}`
}

/** Runs nginx with the content of its `http` block, which listens at `port`; answers with the file. */
export async function startNginx(t: Test, http: string, port: number): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-nginx-'))
  const file = join(folder, 'nginx.conf')
  await writeFile(file, around(http, folder))
  const child: ChildProcess = spawn(PROGRAM as string, ['-p', folder, '-c', file], {
    stdio: ['ignore', 'ignore', 'pipe']
  })
  let errors = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    errors += text
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  t.teardown(async () => {
    child.kill('SIGTERM')
    await ended
    await rm(folder, { recursive: true, force: true })
  })
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`nginx ended: ${errors}`)
    return await answers(port)
  })
  return file
}

async function answers(port: number): Promise<boolean> {
  try {
    await fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(1000), redirect: 'manual' })
    return true
  } catch {
    return false
  }
}

/** An upstream that answers with the field `x-winner` that it got. */
export async function startEcho(t: Test): Promise<number> {
  const server: Server = createServer((request, response) => response.end(String(request.headers['x-winner'])))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    return new Promise<void>((resolve) => server.close(() => resolve()))
  })
  return (server.address() as AddressInfo).port
}
