/* Which leaves of docs/numerics.md a chunk holds. A unit is `leaf_images` images, in one leaf or, where that is one
   image, in `bands` leaves of `leaf_rows` rows. A chunk is `chunk_units` units or, where that is one, `chunk_bands`
   bands of it: powers of two, so that chunks are nodes of the tree. */
#ifndef LIB_LEAVES_H
#define LIB_LEAVES_H

typedef struct {
  int unit, unit_end; /* units of the chunk */
  int band, band_end; /* bands of each of them */
} Chunk;

FUNCTION Chunk chunk_of(int number, int images, int rows, int leaf_images, int leaf_rows, int chunk_units, int chunk_bands) {
  int bands = (rows + leaf_rows - 1) / leaf_rows, parts = (bands + chunk_bands - 1) / chunk_bands;
  int units = (images + leaf_images - 1) / leaf_images;
  Chunk chunk;
  chunk.unit = number / parts;
  chunk.band = (number - chunk.unit * parts) * chunk_bands;
  chunk.unit *= chunk_units;
  chunk.unit_end = units - chunk.unit < chunk_units ? units : chunk.unit + chunk_units;
  chunk.band_end = bands - chunk.band < chunk_bands ? bands : chunk.band + chunk_bands;
  return chunk;
}

#endif
