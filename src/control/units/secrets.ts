import { vault } from '../../resources/vault.js'
import { vaultSecret } from '../../resources/vault-secret.js'
import { planned, secretAt } from './planned.js'

export const vaults = planned(
  vault,
  (id) => [`vault:${id}`],
  ({ record: { id, body } }) => [[`vault:${id}`, { kind: 'vault', id, name: body.name }]]
)

export const vaultSecrets = planned(
  vaultSecret,
  (id) => [`secret:${id}`],
  (one) => {
    const { id, body } = one.record
    const value = secretAt(one, 'value')
    return [[`secret:${id}`, { kind: 'secret', vault: body.vault as string, name: body.name, value }]]
  }
)
