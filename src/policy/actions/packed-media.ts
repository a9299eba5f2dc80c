/** Media types below `application/` whose content is compressed already. */
export const PACKED_MEDIA: readonly string[] = [
  'application/zip',
  'application/gzip',
  'application/x-gzip',
  'application/x-bzip2',
  'application/x-xz',
  'application/zstd',
  'application/x-7z-compressed',
  'application/x-rar-compressed',
  'application/vnd.rar',
  'application/java-archive',
  'application/epub+zip',
  'application/pdf',
  'application/font-woff'
]
