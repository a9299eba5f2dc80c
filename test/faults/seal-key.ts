import { startOwnPostgres } from '../store/postgres-server.js'
import { broken, type Fault, type Outcome } from './fault.js'
import { Product } from './product.js'
import { Site } from './site.js'

const key = (fill: string) => Buffer.alloc(32, fill).toString('base64')

/** A process starts beside a store with secrets and has another key than the one that sealed them. */
export const wrongSealKey: Fault = {
  name: 'a wrong seal key',
  within: 120,
  async run(stage): Promise<Outcome> {
    const server = await startOwnPostgres(stage as never)
    const env = { SLUICE_STORE: await server.database() }
    const right = { env: { ...env, SLUICE_SEAL_KEY: key('a') } }
    const first = await Product.start(stage, right)
    const site = await Site.make(first)
    await site.write(first, 'before')
    const post = (path: string, body: unknown) => first.ask(path, { method: 'POST', body })
    const vault = await post('/vaults', { name: 'main' })
    const made = await post('/vault_secrets', { name: 'one', value: 'hidden', vault_id: vault.json.id })
    await first.stop()
    const wrong = await Product.tried(stage, { env: { ...env, SLUICE_SEAL_KEY: key('b') } })
    const { end } = wrong
    await wrong.kill()
    const third = await Product.start(stage, right)
    const shown = await third.ask(`/vault_secrets/${made.json.id}`)
    return {
      clients:
        end === undefined ? 'the process with the wrong key serves' : 'the process with the wrong key serves nobody',
      operator: end ?? `it started; log: “${wrong.log.map(({ msg }) => msg).join('”, “')}”`,
      lost: [...(await site.lost(third)), ...(shown.status === 200 ? [] : ['the secret'])],
      broken: broken({
        'the secret is made': made.status === 201,
        'the start is refused': end !== undefined,
        'it names the seal key': end !== undefined && /seal/i.test(end)
      })
    }
  }
}
