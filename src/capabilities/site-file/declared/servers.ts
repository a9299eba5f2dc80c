import type { NodePath } from '../../../policy/problems.js'
import { dataOf, type TreeNode } from '../../../policy/tree.js'
import { fieldErrors } from '../../../schema/errors.js'
import type { Declaration } from './declaration.js'
import { SERVER } from './fields.js'
import { lacks } from './synonyms.js'

/** A server of a backend as a site file writes it. */
export interface DeclaredServer {
  readonly url: string
  readonly weight: number
  /** True if the server is used only while all regular ones are down. */
  readonly backup: boolean
  readonly node: TreeNode
  readonly path: NodePath
}

/** A server of a list: its URL, or a map with it. Undefined after a report. */
export function readServer(declaration: Declaration, item: TreeNode, path: NodePath): DeclaredServer | undefined {
  if (item.kind !== 'map') {
    const url = declaration.text(item, path, 'a server')
    return url === undefined ? undefined : { url, weight: 1, backup: false, node: item, path }
  }
  const fields = declaration.fields(item, path, SERVER)
  const url = fields.get('url')
  if (url === undefined) {
    if (lacks(item, SERVER))
      declaration.error({ path, span: item.span }, fieldErrors.FIELD_REQUIRED, 'a server needs its url')
    return undefined
  }
  const text = declaration.text(url.value, [...path, 'url'], 'the url of a server')
  const weight = fields.get('weight')
  const given = fields.get('backup')
  const backup = given === undefined ? false : dataOf(given.value)
  if (given !== undefined && typeof backup !== 'boolean') {
    const at = { path: [...path, 'backup'], span: given.value.span }
    declaration.error(at, fieldErrors.FIELD_INVALID, 'backup must be true or false')
  }
  if (text === undefined || typeof backup !== 'boolean') return undefined
  const share = weight === undefined ? 1 : (dataOf(weight.value) as number)
  return { url: text, weight: share, backup, node: url.value, path }
}
