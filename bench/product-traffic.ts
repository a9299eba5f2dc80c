import { fileURLToPath } from 'node:url'
import { freePort, type Running, startProgram } from './process.js'

const KEY = 'a-key-for-the-benchmark'
const CPU = 0

export interface Product extends Running {
  readonly api: (path: string, body: object) => Promise<{ readonly id: string }>
  readonly port: number
}

/** The built product on the first CPU, without access log. `options` as environment variables without their prefix. */
export async function startProduct(options: Readonly<Record<string, string>> = {}): Promise<Product> {
  const [port, apiPort] = [await freePort(), await freePort()]
  const env: Record<string, string> = {
    SLUICE_LISTEN: `127.0.0.1:${port}`,
    SLUICE_API_LISTEN: `127.0.0.1:${apiPort}`,
    SLUICE_API_KEY: KEY,
    SLUICE_DATA: ':memory:',
    SLUICE_ACCESS_LOG: 'off',
    SLUICE_LOG_LEVEL: 'error'
  }
  for (const [name, value] of Object.entries(options)) env[`SLUICE_${name}`] = value
  const main = fileURLToPath(new URL('../src/main.js', import.meta.url))
  const running = await startProgram(process.execPath, [main, 'start'], apiPort, { cpu: CPU, env })
  const headers = { authorization: `Bearer ${KEY}`, 'service-version': '2', 'content-type': 'application/json' }
  const api = async (path: string, body: object) => {
    const answer = await fetch(`http://127.0.0.1:${apiPort}${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body)
    })
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    return (await answer.json()) as { id: string }
  }
  return { ...running, api, port }
}
