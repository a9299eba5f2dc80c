import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { systemClock } from '../../../src/lib/clock.js'
import { ManualClock } from '../../helpers/clock.js'
import { startRoute } from '../route.js'
import { CLIENT } from './fake-provider.js'

export const HOST = 'app.example.com'
export const application = { client_id: CLIENT.id, client_secret: CLIENT.secret }

/**
 * The product, an upstream that repeats what it sees, and the operator's file of providers. `threads`: that carry the traffic; they have the
 * clock of the machine.
 */
export async function stage(t: Test, providers: string, modules: Readonly<Record<string, unknown>> = {}, threads = 0) {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-login-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'providers.yaml')
  await writeFile(file, providers)
  const seen: { url: string | undefined; headers: NodeJS.Dict<string | string[]> }[] = []
  const clock = new ManualClock(systemClock.wall())
  const route = await startRoute(
    t,
    (request, response) => {
      seen.push({ url: request.url, headers: request.headers })
      response.end('the upstream')
    },
    modules,
    {
      clock: threads === 0 ? clock : systemClock,
      threads,
      options: { OUTBOUND_ALLOW_PRIVATE: 'on', LOGIN_PROVIDERS: file }
    }
  )
  const site = `http://${HOST}:${route.sluice.port}`
  return { ...route, seen, clock, site }
}
