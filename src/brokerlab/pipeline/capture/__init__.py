"""Captures of traffic: from pcap files to MQTT packets, as arrays.

    file ──► container ──► frames ──► streams ──► mqtt ──► counts, and messages that came and left
             (records)     (TCP)      (bytes in   (packets)
                                       order)

A connection may begin in one part of a file and end in another. A part is therefore read only down to its TCP
segments, 32 bytes each without what they carry; those of one connection meet in one task, which follows its
streams and reads the headers of MQTT packets where they lie in the file.

The compiled loops are here because no array expression holds a walk whose next step depends on the last one.
"""
