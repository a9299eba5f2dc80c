import { ApiError } from './errors.js'

const TAG = /^(?:W\/)?"[\x21\x23-\x7e]*"$/
const STRONG = /^"(\d{1,15})"$/

/** ETag of a record at a revision (RFC 9110 8.8.3). */
export function entityTag(revision: number): string {
  return `"${revision}"`
}

/**
 * Revisions that `If-Match` (RFC 9110 13.1.1) accepts; undefined: any. Tags compare strongly, so a weak one names no
 * revision. Throws an ApiError `PRECONDITION_INVALID`.
 */
export function readIfMatch(header: string | undefined): readonly number[] | undefined {
  if (header === undefined || header.trim() === '*') return undefined
  const tags = header
    .split(',')
    .map((tag) => tag.trim())
    .filter((tag) => tag !== '')
  if (tags.length === 0 || !tags.every((tag) => TAG.test(tag))) {
    throw new ApiError(400, 'PRECONDITION_INVALID', 'If-Match must be an ETag in double quotes, several of them, or *.')
  }
  return tags.flatMap((tag) => {
    const revision = STRONG.exec(tag)?.[1]
    return revision === undefined ? [] : [Number(revision)]
  })
}
