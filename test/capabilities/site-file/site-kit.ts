import { readFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { runCommand } from '../../cli/command.js'
import { type Ended, SluiceProcess } from '../../cli/process.js'

export const KEY = 'test-key-that-is-long-enough-0123456789'
export const DENY_ADMIN =
  'on_http_request:\n  - expressions: ["req.url.path.startsWith(\'/admin\')"]\n    actions:\n      - type: deny\n'

export type Test = Pick<typeof t, 'teardown' | 'testdir'>

/** A server that answers with its name. */
export async function upstream(t: Test, name: string): Promise<string> {
  const server = createServer((_, response) => response.end(name))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise<void>((resolve) => server.close(() => resolve())))
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Status and text of one request with this host. */
export function get(url: string, host: string, path = '/'): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request(new URL(path, url), { headers: { host }, agent: false }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      response.on('end', () => resolve(`${response.statusCode} ${response.statusCode === 200 ? text : ''}`.trim()))
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end()
  })
}

export async function call(api: string, method: string, path: string, body?: unknown, key = KEY) {
  const response = await fetch(`${api}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'service-version': '2' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  const text = await response.text()
  // biome-ignore lint/suspicious/noExplicitAny: answers of many forms
  return { status: response.status, body: (text === '' ? null : JSON.parse(text)) as any }
}

/** One command of the product. */
export function sluice(cwd: string, ...words: string[]): Promise<Ended> {
  return runCommand(t, words, { cwd, env: { SLUICE_API_KEY: KEY } })
}

/** Stops a process as an operator does. */
export async function stopped(process: SluiceProcess): Promise<Ended> {
  process.child.kill('SIGTERM')
  return await process.ended()
}

export async function started(t: Test, cwd: string, env: Record<string, string> = {}, ...words: string[]) {
  const all = ['start', ...words, '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0', '--data', 'data']
  const process = new SluiceProcess(t, all, { cwd, env: { SLUICE_API_KEY: KEY, ...env } })
  const { traffic, api } = (await process.logged('listening')) as { traffic: string; api: string }
  return { process, traffic, api }
}

/** The body of an application. */
export function bundle(cwd: string, names: readonly string[], file = 'sites.yaml') {
  const read = (name: string) => readFileSync(join(cwd, name), 'utf8')
  return { file, text: read(file), files: names.map((name) => ({ name, text: read(name) })) }
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
