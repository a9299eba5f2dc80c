import { hashOf } from '../lib/seal.js'
import { apiKey, credential } from '../resources/identities.js'
import type { Resource } from '../resources/resource.js'
import type { StoreReader } from '../store/store.js'

const CREDENTIAL_SPACE = 'credential_token'

/**
 * What a text that opens nothing is instead, for people: the id of a key, or the token of an agent's credential; undefined
 * when it is nothing of this account. Ids are told by their form, so that this says nothing about which of them exist.
 */
export async function otherThanKey(reader: StoreReader, key: string): Promise<string | undefined> {
  const resource = [apiKey, credential].find((one) => isIdOf(one, key))
  if (resource !== undefined) return `the id of a record (${resource.name}), not a token`
  const keeper = await reader.keeperOf(CREDENTIAL_SPACE, hashOf(key))
  return keeper === undefined ? undefined : 'the token of a credential, which opens agent sessions and not this API'
}

function isIdOf({ idPrefix }: Resource, key: string): boolean {
  return key.startsWith(`${idPrefix}_`) && /^[0-9A-Za-z]{27}$/.test(key.slice(idPrefix.length + 1))
}
